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

/// Returns free memory to the kernel.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim only releases what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
