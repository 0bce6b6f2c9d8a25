//! What this kernel lacks of the newer calls: found once, and told.

use std::io;
use std::sync::OnceLock;

/// What is missing and what is done instead, one line each. Kernels from 6.3 on lack nothing of it.
pub fn missing() -> &'static [&'static str] {
    static FOUND: OnceLock<Vec<&'static str>> = OnceLock::new();
    FOUND.get_or_init(|| CALLS.iter().filter(|(absent, _)| absent()).map(|(_, text)| *text).collect())
}

type Absent = fn() -> bool;

const CALLS: [(Absent, &str); 4] = [
    (
        || mount_setattr() == libc::ENOSYS,
        "mount_setattr (Linux 5.12) is missing: no id-mapped mounts, no recursive mount options; the shim runs from memory",
    ),
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

fn mount_setattr() -> i32 {
    // SAFETY: no descriptor and no structure is given, so it can only fail.
    errno(unsafe { libc::syscall(libc::SYS_mount_setattr, -1, c"".as_ptr(), 0, std::ptr::null::<u8>(), 0) })
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
        if version >= (Some(6), Some(3)) {
            assert_eq!(missing(), <[&str; 0]>::default(), "on {release}");
        } else {
            assert!(!missing().is_empty(), "on {release}");
        }
    }
}
