//! The C library's allocator, told to give memory back: what a process idles on counts once per pod.

/// One arena for all threads, and freed memory returned early. Call before the first thread starts.
pub fn single_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only sets parameters.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 * 1024);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 * 1024);
    }
}

/// Starts this program once more, with an allocator that keeps no freed memory per thread: such caches grow for hours, each
/// to some hundred kilobytes, and nothing gives them back. Only the environment can say so to the C library. Call it in a
/// single-threaded process before anything else; an administrator's own settings are left alone.
///
/// # Errors
/// The program cannot be started again; it can go on as it is.
#[cfg(target_env = "gnu")]
pub fn without_thread_caches() -> std::io::Result<()> {
    use std::os::unix::process::CommandExt;
    const NAME: &str = "GLIBC_TUNABLES";
    const VALUE: &str = "glibc.malloc.tcache_count=0";
    match std::env::var_os(NAME) {
        None => {
            let mut args = std::env::args_os();
            let mut again = std::process::Command::new(std::env::current_exe()?);
            if let Some(name) = args.next() {
                again.arg0(name);
            }
            Err(again.args(args).env(NAME, VALUE).exec())
        }
        Some(value) if value == VALUE => {
            // SAFETY: the caller promises that no other thread runs that could read the environment meanwhile.
            unsafe { std::env::remove_var(NAME) };
            Ok(())
        }
        Some(_) => Ok(()),
    }
}

/// Other C libraries have no such caches.
#[cfg(not(target_env = "gnu"))]
pub fn without_thread_caches() -> std::io::Result<()> {
    Ok(())
}

/// Returns free memory to the kernel.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim only releases what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
