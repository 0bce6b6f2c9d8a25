//! Verbs on the node itself.

pub mod info;
pub mod status;
pub mod update;

/// Names and versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The version of the kubelet's own side of the interface, which the kubelet compares.
    pub kubelet_api: &'static str,
    /// Name of this runtime; container ids in Kubernetes begin with it.
    pub name: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// Version of CRI.
    pub cri: &'static str,
}

/// Names and versions.
#[must_use]
pub fn version() -> Version {
    Version { kubelet_api: "0.1.0", name: "berth", version: env!("CARGO_PKG_VERSION"), cri: "v1" }
}
