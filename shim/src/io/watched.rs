//! Descriptors on the event loop.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Puts a descriptor on the loop. Must be called within the runtime.
#[expect(deprecated, reason = "its successor is unsafe: it wants the promise that AsFd makes here")]
pub(crate) fn watched<T: AsRawFd + AsFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(fd, interest)
}
