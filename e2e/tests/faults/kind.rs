//! What goes wrong.

use berth_e2e::faults::Mood;

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
    /// From there on a CNI plugin fails, until the call has ended.
    PluginFails,
    /// From there on a CNI plugin hangs, until the call has ended.
    PluginHangs,
}

impl Kind {
    /// What can go wrong whatever network there is.
    pub(super) const ANYWHERE: [Self; 5] =
        [Self::StepFails, Self::DaemonKilled, Self::ShimKilled, Self::DiskFull, Self::CallerGone];
    /// What can go wrong with CNI besides.
    pub(super) const PLUGINS: [Self; 2] = [Self::PluginFails, Self::PluginHangs];

    /// How a plugin feels about it.
    pub(super) fn mood(self) -> Mood {
        match self {
            Self::PluginFails => Mood::Fails,
            Self::PluginHangs => Mood::Hangs,
            _ => Mood::Well,
        }
    }
}
