//! Work that blocks, off the loop: a thread that lives about as long as the work.

use crate::error::CallError;

/// Runs `work` on a thread. It runs to its end even if the caller is dropped.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(CallError::Panicked(error.to_string())),
    }
}
