//! Installing a compiled seccomp filter.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Installs `program` (native-endian `struct sock_filter`s) with `flags`; gives the listener when the flags ask for one.
///
/// # Errors
/// EACCES without no_new_privs and CAP_SYS_ADMIN, EINVAL for a program the kernel rejects or flags it does not know.
pub fn install(program: &[u8], flags: u32) -> io::Result<Option<OwnedFd>> {
    const INSTRUCTION: usize = size_of::<libc::sock_filter>();
    if !program.len().is_multiple_of(INSTRUCTION) || program.len() / INSTRUCTION > usize::from(u16::MAX) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut filter: Vec<libc::sock_filter> = program
        .chunks_exact(INSTRUCTION)
        .map(|c| libc::sock_filter {
            code: u16::from_ne_bytes([c[0], c[1]]),
            jt: c[2],
            jf: c[3],
            k: u32::from_ne_bytes([c[4], c[5], c[6], c[7]]),
        })
        .collect();
    let order = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `order` describes the vector above, which the kernel copies during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const order) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    if u64::from(flags) & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER == 0 {
        return Ok(None);
    }
    // SAFETY: with NEW_LISTENER a non-negative result is a new descriptor that nobody else owns.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(result as i32) }))
}

/// Makes the call `number` with arguments that no call can do anything with; gives its errno, 0 for success. To ask a filter.
pub fn probe(number: i64) -> i32 {
    const NOTHING: i64 = -1;
    // SAFETY: no argument is an address that can be read or written, nor a descriptor, process or flag that exists.
    let result = unsafe { libc::syscall(number, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING) };
    if result == -1 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}
