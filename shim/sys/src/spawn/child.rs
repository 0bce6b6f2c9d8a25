//! What the child does on its borrowed memory before execve: system calls only.

use libc::{c_char, c_int};

/// Everything the child needs, laid out before the clone.
pub(super) struct Order {
    pub(super) exe: c_int,
    pub(super) argv: *const *const c_char,
    pub(super) env: *const *const c_char,
    pub(super) fds: *const c_int,
    /// Room for the descriptors once moved out of the way; as long as `fds`.
    pub(super) lifted: *mut c_int,
    pub(super) count: usize,
    /// Set by the child when it fails; the caller, which shares the memory, reads it.
    pub(super) errno: c_int,
}

/// The child's whole life until execve. Runs on its own stack and never returns.
///
/// # Safety
/// `order` must be valid and untouched by others while the child runs: the caller sleeps in clone3 (`CLONE_VFORK`).
pub(super) unsafe extern "C" fn run(order: *mut Order) -> ! {
    // SAFETY: by contract nobody else uses the memory now.
    let order = unsafe { &mut *order };
    // SAFETY: `order` holds valid pointers, see `spawn`.
    order.errno = unsafe { place_and_execute(order) };
    loop {
        // SAFETY: ends this process only; no memory is touched.
        unsafe { libc::syscall(libc::SYS_exit_group, 127) };
    }
}

/// Places the descriptors, resets signals, executes; returns the errno of the step that failed.
///
/// # Safety
/// The pointers in `order` must be valid for `count` elements and null-terminated arrays.
unsafe fn place_and_execute(order: &mut Order) -> c_int {
    let count = order.count as c_int;
    // Everything is first lifted above the target range, so that no placement overwrites a source.
    for i in 0..order.count {
        // SAFETY: i < count.
        let fd = unsafe { libc::fcntl(*order.fds.add(i), libc::F_DUPFD_CLOEXEC, count + 1) };
        if fd < 0 {
            return errno();
        }
        // SAFETY: i < count, and `lifted` is as long as `fds`.
        unsafe { *order.lifted.add(i) = fd };
    }
    // SAFETY: plain descriptor calls.
    let exe = unsafe { libc::fcntl(order.exe, libc::F_DUPFD_CLOEXEC, count + 1) };
    if exe < 0 {
        return errno();
    }
    for i in 0..order.count {
        // SAFETY: as above; dup3 clears close-on-exec at the target.
        if unsafe { libc::dup3(*order.lifted.add(i), i as c_int, 0) } < 0 {
            return errno();
        }
    }
    // SAFETY: as above; the program must vanish at execve, so close-on-exec.
    if unsafe { libc::dup3(exe, count, libc::O_CLOEXEC) } < 0 {
        return errno();
    }
    // SAFETY: closes what nobody asked for; the child's table is its own copy.
    unsafe { libc::syscall(libc::SYS_close_range, count + 1, u32::MAX, 0) };
    crate::signal::reset();
    // SAFETY: arrays are null-terminated, the path is a static empty string.
    unsafe {
        libc::syscall(libc::SYS_execveat, count, c"".as_ptr(), order.argv, order.env, libc::AT_EMPTY_PATH)
    };
    errno()
}

fn errno() -> c_int {
    // SAFETY: the thread's errno is always a valid location.
    unsafe { *libc::__errno_location() }
}
