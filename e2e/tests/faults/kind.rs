//! What goes wrong.

/// What goes wrong at a fault point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The step fails.
    StepFails,
    /// The daemon is killed there and started anew.
    DaemonKilled,
    /// The pod's shim is killed while the daemon is there.
    ShimKilled,
    /// From there on the disk is full, until the call has ended.
    DiskFull,
    /// The caller goes away there, and asks again.
    CallerGone,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::StepFails, Self::DaemonKilled, Self::ShimKilled, Self::DiskFull, Self::CallerGone];
}
