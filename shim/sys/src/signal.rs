//! Signal dispositions and masks: blocked around a clone, back at their defaults before a program starts.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Keeps every signal of the calling thread blocked while it lives.
#[derive(Debug)]
pub(crate) struct BlockAll(libc::sigset_t);

impl BlockAll {
    pub(crate) fn new() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut old = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are written before they are read: the first by sigfillset, the second by the kernel (or by
        // sigemptyset, should the call ever fail).
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(old.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
            Self(old.assume_init())
        }
    }
}

impl Drop for BlockAll {
    fn drop(&mut self) {
        // SAFETY: restores a mask that the kernel gave us.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// Sets every signal to its default action and unblocks all: what a program may expect at its start.
///
/// Rust's std ignores SIGPIPE, and execve keeps what is ignored.
pub fn reset() {
    const KERNEL_SET: usize = 8;
    // An all-zero kernel sigaction: SIG_DFL, no flags, empty mask. The raw call is used since libc refuses signals 32 and 33.
    let default = [0u64; 4];
    let empty = [0u8; KERNEL_SET];
    for signal in 1..=64 {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            continue;
        }
        // SAFETY: `default` is at least as large as the kernel's sigaction; nothing is written back.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                KERNEL_SET,
            );
        }
    }
    // SAFETY: `empty` is as long as the size given; nothing is written back.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            empty.as_ptr(),
            std::ptr::null_mut::<u64>(),
            KERNEL_SET,
        );
    }
}

/// Lets what `command` starts begin with default actions and no signal blocked, whatever this process has blocked or ignores.
pub fn by_default(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec only raw system calls on values of its own are made: nothing is allocated or locked.
    unsafe {
        command.pre_exec(|| {
            reset();
            Ok(())
        });
    }
}

/// Sleeps until a child of this process has changed its state. The first call blocks SIGCHLD for the calling thread, so one that
/// arrives between two calls is not lost. For processes with one thread.
pub fn await_child() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is written by sigemptyset before it is used; no siginfo is asked for.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::sigwaitinfo(set.as_ptr(), std::ptr::null_mut());
    }
}

/// Signals of this process as a descriptor: blocked for the calling thread, and read one by one.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Watches every signal that can be passed on to another process: not SIGCHLD, nor the faults of a program itself.
    ///
    /// # Errors
    /// Those of signalfd.
    pub fn new() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is written by sigfillset before it is used; a new descriptor is ours alone.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            for signal in
                [libc::SIGCHLD, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGPIPE]
            {
                libc::sigdelset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(OwnedFd::from_raw_fd(fd))) }
        }
    }

    /// The next signal that has arrived, if any.
    pub fn next(&self) -> Option<i32> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let read = rustix::io::read(&self.0, &mut info).ok()?;
        // The number is the first field of the structure.
        (read == info.len()).then(|| i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
