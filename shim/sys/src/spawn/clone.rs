//! clone3 itself, in its two forms: the sleeping caller with a child that executes, and a sibling of a single-threaded process.
//! Where it is missing, clone, which knows no cgroup to be born in.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::child::{Order, run};
use crate::missing::{Call, lacks};
use crate::namespace::Namespaces;

/// Enough for a few system calls; the child calls nothing deeper than libc's wrappers.
const STACK: usize = 32 * 1024;

/// struct clone_args of linux/sched.h, up to `cgroup` (Linux 5.7).
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

#[repr(C, align(16))]
struct Stack([u8; STACK]);

/// Clones, runs [`run`] with `order` in the child and returns its pid once it executed or ended.
pub(super) fn vfork_into(
    namespaces: u64,
    cgroup: Option<i32>,
    pidfd: &mut i32,
    order: &mut Order,
) -> io::Result<i32> {
    let mut stack = Box::<Stack>::new_uninit();
    if lacks(Call::Clone3) {
        let namespaces = old_bits(namespaces)?;
        if cgroup.is_some() {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        let flags =
            namespaces | (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD) as u64;
        let top = stack.as_mut_ptr() as u64 + STACK as u64;
        let words = [flags, top, std::ptr::from_mut(pidfd) as u64];
        // SAFETY: as below; the place for the pidfd is the caller's.
        return errno(unsafe { call(libc::SYS_clone, words, order) });
    }
    let mut args = CloneArgs {
        flags: namespaces | (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD) as u64,
        pidfd: std::ptr::from_mut(pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.as_mut_ptr() as u64,
        stack_size: STACK as u64,
        ..CloneArgs::default()
    };
    if let Some(fd) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = fd as u64;
    }
    let words = [&raw const args as u64, size_of::<CloneArgs>() as u64, 0];
    // SAFETY: `args` is a valid clone_args; the child gets a stack of its own and leaves it only by execve or exit, and all it
    // reads and writes through `order` outlives it, since the caller sleeps until then.
    errno(unsafe { call(libc::SYS_clone3, words, order) })
}

/// The pid, or the error that the kernel gives as a negative number.
fn errno(result: i64) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(result as i32) }
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The namespaces as clone takes them: in place of new clocks it has the exit signal.
fn old_bits(namespaces: u64) -> io::Result<u64> {
    match namespaces & Namespaces::TIME.bits() {
        0 => Ok(namespaces),
        _ => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
    }
}

/// The raw call of clone or clone3. The child jumps to `run(order)` without ever returning into this frame.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: i64, words: [u64; 3], order: &mut Order) -> i64 {
    let result: i64;
    // SAFETY: see the callers. The child's stack pointer is the 16-byte aligned top of its stack.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") number => result,
            in("rdi") words[0],
            in("rsi") words[1],
            in("rdx") words[2],
            in("r10") 0,
            in("r8") 0,
            in("r12") order,
            in("r13") run as *const (),
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The raw call of clone or clone3. The child jumps to `run(order)` without ever returning into this frame.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: i64, words: [u64; 3], order: &mut Order) -> i64 {
    let result: i64;
    // SAFETY: see the callers. The child's stack pointer is the 16-byte aligned top of its stack.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk 1",
            "2:",
            in("x8") number,
            inlateout("x0") words[0] => result,
            in("x1") words[1],
            in("x2") words[2],
            in("x3") 0,
            in("x4") 0,
            in("x20") order,
            in("x21") run as *const (),
        );
    }
    result
}

/// Which side of [`fork_sibling`] runs.
#[derive(Debug)]
pub enum Fork {
    /// The process that called, with the new process's id and handle.
    Caller(i32, OwnedFd),
    /// The new process.
    Sibling,
}

/// Forks a sibling: a child of the caller's own parent, in new `namespaces`. The way into a pid namespace that setns or unshare
/// only prepared. Where clone3 is missing the clocks stay as they are.
///
/// # Errors
/// EINVAL when the process has more than one thread (a fork would then copy locks in unknown states); the errno of clone3.
pub fn fork_sibling(namespaces: Namespaces) -> io::Result<Fork> {
    // SAFETY: changes nothing; the kernel refuses it in a process with several threads, which is what is asked here.
    if unsafe { libc::unshare(libc::CLONE_THREAD) } != 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut pidfd: i32 = -1;
    let flags = (libc::CLONE_PARENT | libc::CLONE_PIDFD) as u64;
    let result = if lacks(Call::Clone3) {
        let flags = flags | namespaces.without(Namespaces::TIME).bits();
        // SAFETY: without CLONE_VM the child works on a copy of this single-threaded process, so returning is safe in both.
        unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) }
    } else {
        let args = CloneArgs {
            flags: flags | namespaces.bits(),
            pidfd: &raw mut pidfd as u64,
            ..CloneArgs::default()
        };
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) }
    };
    match result {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Sibling),
        // SAFETY: the kernel stored a new descriptor that nobody else owns; the sibling's table was copied before.
        pid => Ok(Fork::Caller(pid as i32, unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}
