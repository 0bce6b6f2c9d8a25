//! What a process does to itself before it becomes the container's program.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::spawn::pointers;

/// Turns a libc result into an `io::Result`.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Executes `path`; returns only when that failed.
pub fn execute(path: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let argv = pointers(argv);
    let env = pointers(env);
    // SAFETY: both arrays are null-terminated and their strings live until the call returns.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Closes every descriptor from `first` on at the next execve.
///
/// # Errors
/// ENOSYS or EINVAL before Linux 5.11.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    // SAFETY: sets a flag on descriptors, closes none.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOSE_RANGE_CLOEXEC) }).map(drop)
}

/// Sets real, effective and saved group, the supplementary groups, and then the user, of this single-threaded process.
///
/// The raw calls are used: libc's would signal all threads, of which there are none.
///
/// # Errors
/// EPERM; EINVAL for an id not mapped in the user namespace, and for 4294967295, which would mean "leave it as it is".
pub fn set_ids(uid: u32, gid: u32, groups: Option<&[u32]>) -> io::Result<()> {
    if [uid, gid].contains(&u32::MAX) || groups.is_some_and(|g| g.contains(&u32::MAX)) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    if let Some(groups) = groups {
        // SAFETY: pointer and length describe the slice.
        check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
    }
    // SAFETY: plain numbers.
    check(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: plain numbers.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })?;
    let (is_uid, is_gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    if (is_uid, is_gid) == (uid, gid) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

/// Joins the session keyring `name`, making it if there is none, so that the process shares none with whoever started it. Later
/// processes of the same user can join it too.
///
/// # Errors
/// ENOSYS where the kernel has no keyrings, EDQUOT when the user has too many.
pub fn join_session_keyring(name: &CStr) -> io::Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;
    const KEYCTL_SETPERM: libc::c_long = 5;
    // Everything for whoever possesses it; for its user to view, read, search and link. Without search nobody finds it by name.
    const PERMISSIONS: libc::c_long = 0x3f00_0000 | 0x001b_0000;
    // SAFETY: the name is a C string.
    let serial =
        check(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name.as_ptr()) })?;
    // SAFETY: plain numbers.
    check(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_SETPERM, serial, PERMISSIONS) }).map(drop)
}

/// Sets the execution domain.
///
/// # Errors
/// Those of personality.
pub fn set_personality(domain: u64) -> io::Result<()> {
    // SAFETY: a plain number.
    check(unsafe { libc::syscall(libc::SYS_personality, domain) }).map(drop)
}

/// Sets the I/O priority (class 1 to 3, level 0 to 7) of this process.
///
/// # Errors
/// EPERM for the real-time class without the privilege.
pub fn set_io_priority(class: u8, level: u8) -> io::Result<()> {
    const IOPRIO_WHO_PROCESS: libc::c_long = 1;
    let value = (libc::c_long::from(class) << 13) | libc::c_long::from(level);
    // SAFETY: plain numbers.
    check(unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) }).map(drop)
}

/// struct sched_attr of linux/sched/types.h, first size.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Scheduling {
    size: u32,
    /// `SCHED_*`.
    pub policy: u32,
    /// `SCHED_FLAG_*`.
    pub flags: u64,
    /// For SCHED_OTHER and SCHED_BATCH.
    pub nice: i32,
    /// For SCHED_FIFO and SCHED_RR.
    pub priority: u32,
    /// For SCHED_DEADLINE, as the two that follow.
    pub runtime: u64,
    /// Deadline in nanoseconds.
    pub deadline: u64,
    /// Period in nanoseconds.
    pub period: u64,
}

/// Sets the scheduling policy of this process.
///
/// # Errors
/// EPERM, EINVAL.
pub fn set_scheduling(scheduling: Scheduling) -> io::Result<()> {
    let attr = Scheduling { size: size_of::<Scheduling>() as u32, ..scheduling };
    // SAFETY: `attr` says its own size.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) }).map(drop)
}

/// Lets this process run on every CPU that its cpuset allows (`None`), or on those of `mask` (one bit per CPU).
///
/// # Errors
/// EINVAL when none of them is allowed.
pub fn set_affinity(mask: Option<&[u64]>) -> io::Result<()> {
    // The kernel cuts the mask to what exists and what the cpuset allows.
    let all = [u64::MAX; 128];
    let mask = mask.unwrap_or(&all);
    // SAFETY: pointer and size describe the slice.
    check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(mask), mask.as_ptr()) })
        .map(drop)
}

/// Sets the NUMA memory policy of this process.
///
/// # Errors
/// EINVAL for a node that is not there, ENOSYS without NUMA.
pub fn set_memory_policy(mode: u32, nodes: &[u64]) -> io::Result<()> {
    // The kernel takes one bit less than it is told, and none would become all.
    let bits = nodes.len() * 64 + 1;
    // SAFETY: the kernel reads `bits - 1` bits, which the slice holds.
    check(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, nodes.as_ptr(), bits) }).map(drop)
}

/// Makes `terminal` the controlling terminal of this session leader.
///
/// # Errors
/// EPERM when the process leads no session.
pub fn set_controlling_terminal(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a plain number.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) }.into()).map(drop)
}

/// Brings the loopback interface of the process's network namespace up.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN there.
pub fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is an ifreq, as SIOCSIFFLAGS wants.
    check(
        unsafe {
            libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request)
        }
        .into(),
    )
    .map(drop)
}

/// Sets the soft and hard limit of `resource` (an `RLIMIT_*` number) of this process.
///
/// # Errors
/// EPERM when the hard limit would rise without CAP_SYS_RESOURCE.
pub fn set_limit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the new limit is read, no old one is asked for.
    check(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            resource,
            &raw const limit,
            std::ptr::null_mut::<libc::rlimit64>(),
        )
    })
    .map(drop)
}

/// The soft and hard limit of `resource` of this process.
///
/// # Errors
/// EINVAL for an unknown number.
pub fn limit(resource: u32) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: only the old limit is written, into `limit`.
    check(unsafe {
        libc::syscall(libc::SYS_prlimit64, 0, resource, std::ptr::null::<libc::rlimit64>(), &raw mut limit)
    })?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Ends this process at once, running nothing more.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// The id of a child that has ended and was not reaped yet; it stays unreaped. None while all live, or without children.
///
/// # Errors
/// Those of waitid.
pub fn ended_child() -> io::Result<Option<i32>> {
    // SAFETY: an all-zero siginfo is valid, and shows pid 0 when waitid found nobody.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel writes a siginfo into `info`.
    match check(unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) }.into()) {
        Ok(_) => {
            // SAFETY: waitid fills the child fields, or leaves them zero.
            let pid = unsafe { info.si_pid() };
            Ok((pid != 0).then_some(pid))
        }
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
    }
}
