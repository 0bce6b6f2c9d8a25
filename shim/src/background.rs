//! Tasks that give nothing.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

/// Starts one. Behind one type, because tokio brings 3 KiB of code for each that it is given.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    erased(Box::pin(task))
}

fn erased(task: Pin<Box<dyn Future<Output = ()> + Send>>) -> JoinHandle<()> {
    tokio::spawn(task)
}
