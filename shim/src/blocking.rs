//! Work that blocks, off the loop: a thread that lives about as long as the work.

use std::any::Any;

use crate::error::CallError;

/// What a piece of work gives, whatever it is.
type Given = Result<Box<dyn Any + Send>, CallError>;

/// Runs `work` on a thread. It runs to its end even if the caller is dropped.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    // Behind one type, because tokio brings 3 KiB of code for each that it is given, and there are dozens.
    let work: Box<dyn FnOnce() -> Given + Send> = Box::new(move || Ok(Box::new(work()?)));
    match erased(work).await?.downcast() {
        Ok(value) => Ok(*value),
        Err(_) => Err(CallError::Panicked("work on a thread gave another type".to_owned())),
    }
}

async fn erased(work: Box<dyn FnOnce() -> Given + Send>) -> Given {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(CallError::Panicked(error.to_string())),
    }
}
