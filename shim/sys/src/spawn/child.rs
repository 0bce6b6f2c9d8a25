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
    if unsafe { libc::syscall(libc::SYS_close_range, count + 1, u32::MAX, 0) } < 0 {
        // SAFETY: as above, one by one.
        let failed = unsafe { close_each(count + 1) };
        if failed != 0 {
            return failed;
        }
    }
    crate::signal::reset();
    // SAFETY: arrays are null-terminated, the path is a static empty string.
    unsafe {
        libc::syscall(libc::SYS_execveat, count, c"".as_ptr(), order.argv, order.env, libc::AT_EMPTY_PATH)
    };
    errno()
}

/// Closes every descriptor from `first` on where close_range is forbidden: what the caller left open must not pass for want of a
/// call. Gives an errno, or 0.
///
/// # Safety
/// The descriptor table must be the child's own.
unsafe fn close_each(first: c_int) -> c_int {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is a static string.
    let directory = unsafe { libc::open(c"/proc/self/fd".as_ptr(), flags) };
    if directory < 0 {
        return errno();
    }
    let mut space = [0u64; 256];
    loop {
        // SAFETY: the kernel writes no more than the size given.
        let read = unsafe {
            libc::syscall(libc::SYS_getdents64, directory, space.as_mut_ptr(), size_of_val(&space))
        };
        if read < 0 {
            return errno();
        }
        if read == 0 {
            return 0;
        }
        // SAFETY: the words are initialised memory of that length.
        let bytes = unsafe { std::slice::from_raw_parts(space.as_ptr().cast::<u8>(), read as usize) };
        for fd in Numbers(bytes).filter(|fd| *fd >= first && *fd != directory) {
            // SAFETY: nobody in this process uses it any more.
            unsafe { libc::close(fd) };
        }
    }
}

/// The numbers among the names of `struct linux_dirent64` entries.
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = c_int;

    fn next(&mut self) -> Option<c_int> {
        /// Where the entry's length stands, and where its name begins.
        const LENGTH: usize = 16;
        const NAME: usize = 19;
        loop {
            let length = u16::from_ne_bytes([*self.0.get(LENGTH)?, *self.0.get(LENGTH + 1)?]);
            let entry = self.0.get(NAME..usize::from(length))?;
            self.0 = self.0.get(usize::from(length)..)?;
            let digits = entry.split(|b| *b == 0).next()?;
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                continue;
            }
            return Some(
                digits
                    .iter()
                    .fold(0, |sum: c_int, b| sum.wrapping_mul(10).wrapping_add(c_int::from(*b - b'0'))),
            );
        }
    }
}

fn errno() -> c_int {
    // SAFETY: the thread's errno is always a valid location.
    unsafe { *libc::__errno_location() }
}
