//! What the service manager is told. Without one (no NOTIFY_SOCKET) these do nothing.

use sd_notify::NotifyState;

/// The daemon serves.
pub fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving CRI")]);
}

/// The daemon drains and ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining calls")]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}
