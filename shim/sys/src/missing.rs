//! What there is not of the newer calls: an older kernel lacks some, and a filter around this process may forbid any. Found once,
//! in one place, and told.

use std::io;
use std::sync::OnceLock;

/// A call that there is another way for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Detached copies of mounts (Linux 5.2).
    OpenTree,
    /// Attaching them (Linux 5.2).
    MoveMount,
    /// New file systems (Linux 5.2).
    FsOpen,
    /// Their options (Linux 5.2).
    FsConfig,
    /// Mounting them (Linux 5.2).
    FsMount,
    /// Attributes of mounts, also recursively, and owners mapped (Linux 5.12).
    MountSetattr,
    /// Paths that stay inside a root (Linux 5.6).
    OpenAt2,
    /// Processes born in a cgroup (Linux 5.7).
    Clone3,
    /// Handles of processes that are not children (Linux 5.3).
    PidfdOpen,
}

/// Whether a call is missing. A filter that forbids it counts as well.
///
/// The first question finds out about all of them, so it is to be asked by whoever may still do everything.
pub fn lacks(call: Call) -> bool {
    static FOUND: OnceLock<u32> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let absent = CALLS.iter().filter(|(_, probe, _)| ABSENT.contains(&probe()));
        absent.fold(0, |set, (call, ..)| set | 1 << *call as u32)
    });
    found & (1 << call as u32) != 0
}

/// What is missing and what is done instead, one line each. Kernels from 6.3 on lack nothing of it, unless a filter forbids it.
pub fn missing() -> &'static [&'static str] {
    static FOUND: OnceLock<Vec<&'static str>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let calls = CALLS.iter().filter(|(call, ..)| lacks(*call)).map(|(.., text)| *text);
        calls.chain(MINOR.iter().filter(|(absent, _)| absent()).map(|(_, text)| *text)).collect()
    })
}

/// What an unknown call says, and what filters say to a forbidden one. The questions below get other answers from a kernel that
/// knows the call.
const ABSENT: [i32; 2] = [libc::ENOSYS, libc::EPERM];

type Probe = fn() -> i32;

const CALLS: [(Call, Probe, &str); 9] = [
    (
        Call::OpenTree,
        || ask(libc::SYS_open_tree),
        "open_tree (Linux 5.2) is missing: mounts by mount(2), no id-mapped ones",
    ),
    (
        Call::MoveMount,
        || ask(libc::SYS_move_mount),
        "move_mount (Linux 5.2) is missing: mounts by mount(2), no id-mapped ones",
    ),
    (
        Call::FsOpen,
        || ask(libc::SYS_fsopen),
        "fsopen (Linux 5.2) is missing: mounts by mount(2), no id-mapped ones",
    ),
    (
        Call::FsConfig,
        || ask(libc::SYS_fsconfig),
        "fsconfig (Linux 5.2) is missing: mounts by mount(2), no id-mapped ones",
    ),
    (
        Call::FsMount,
        || ask(libc::SYS_fsmount),
        "fsmount (Linux 5.2) is missing: mounts by mount(2), no id-mapped ones",
    ),
    (
        Call::MountSetattr,
        || ask(libc::SYS_mount_setattr),
        "mount_setattr (Linux 5.12) is missing: no id-mapped mounts, no recursive mount options; the shim runs from memory",
    ),
    (
        Call::OpenAt2,
        || ask(libc::SYS_openat2),
        "openat2 (Linux 5.6) is missing: paths are walked name by name",
    ),
    (
        Call::Clone3,
        || ask(libc::SYS_clone3),
        "clone3 (Linux 5.7) is missing: processes join their cgroup after they were made",
    ),
    (
        Call::PidfdOpen,
        || ask(libc::SYS_pidfd_open),
        "pidfd_open (Linux 5.3) is missing: containers can only be run, not found again by another command",
    ),
];

type Absent = fn() -> bool;

const MINOR: [(Absent, &str); 3] = [
    (
        || close_range(0) == libc::ENOSYS,
        "close_range (Linux 5.9) is missing: descriptors are closed one by one",
    ),
    (
        || [libc::EINVAL, libc::ENOSYS].contains(&close_range(4)),
        "close_range with CLOSE_RANGE_CLOEXEC (Linux 5.11) is missing: the second look for leaked descriptors is left out",
    ),
    (
        || memfd_exec() == libc::EINVAL,
        "memfd_create with MFD_EXEC (Linux 6.3) is missing: a program in memory cannot forbid a change of its mode",
    ),
];

/// The errno of a call, 0 for success.
fn errno(result: libc::c_long) -> i32 {
    if result < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

/// The errno of a call that is given nothing it could work with: no descriptor, no memory, no process.
fn ask(call: libc::c_long) -> i32 {
    const NONE: libc::c_long = -1;
    let nothing = std::ptr::null::<u8>();
    errno(match call {
        // SAFETY: both fail: no memory is given, and clone3 takes no arguments of length 0.
        libc::SYS_fsopen | libc::SYS_clone3 => unsafe { libc::syscall(call, nothing, 0, 0) },
        // SAFETY: every one fails: its first argument names nothing, and no memory is given.
        _ => unsafe { libc::syscall(call, NONE, nothing, 0, nothing, 0) },
    })
}

fn close_range(flags: u32) -> i32 {
    // SAFETY: the only descriptor in the range cannot exist.
    errno(unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, flags) })
}

fn memfd_exec() -> i32 {
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::EXEC;
    rustix::fs::memfd_create("berth-probe", flags).map_or_else(rustix::io::Errno::raw_os_error, |_| 0)
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn a_new_kernel_lacks_nothing() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("osrelease");
        let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next(), numbers.next());
        if !rustix::process::geteuid().is_root() {
            // Most of them answer EPERM to anybody else.
            return;
        }
        if version >= (Some(6), Some(3)) {
            assert_eq!(missing(), <[&str; 0]>::default(), "on {release}");
        } else {
            assert!(!missing().is_empty(), "on {release}");
        }
    }
}
