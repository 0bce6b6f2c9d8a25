//! The signals that mean something to a shim.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::reaper::Reaper;

/// Taken before anything is made, so that an early one is not lost.
pub(crate) struct Signals {
    child: Signal,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes them.
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Reaps strays. `asked` to end, a shim heeds it only if it owns nothing: containers are ended by their daemon,
    /// not by whoever signals everything he sees.
    pub(crate) async fn heed(mut self, reaper: Arc<Reaper>, mut asked: impl AsyncFnMut()) {
        loop {
            tokio::select! {
                _ = self.child.recv() => reaper.sweep(),
                _ = self.hangup.recv() => {}
                _ = self.interrupt.recv() => asked().await,
                _ = self.terminate.recv() => asked().await,
            }
        }
    }
}
