//! A virtual machine of Debian with systemd as process 1: cgroup v2 with every controller, and the older worlds.
//!
//! One machine runs at a time. Each mode is booted once per run, given the product and the test programs, and frozen;
//! every test begins from that frozen state. Built by `cargo xtask tools guest`.

mod agent;
mod machine;
mod payload;
mod pool;

pub use agent::Output;
pub use payload::{BIN, TOOLS};
pub use pool::{Guest, end, guest};

/// How systemd in the guest lays out control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The unified tree only.
    Unified,
    /// Controllers in v1 hierarchies, systemd's own groups in `name=systemd` and the unified tree.
    Hybrid,
    /// v1 hierarchies only.
    Legacy,
}

impl Mode {
    /// Its name in file names and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Hybrid => "hybrid",
            Self::Legacy => "legacy",
        }
    }

    /// What the kernel's command line says for it.
    fn kernel_words(self) -> &'static str {
        match self {
            Self::Unified => "systemd.unified_cgroup_hierarchy=1",
            Self::Hybrid => "systemd.unified_cgroup_hierarchy=0",
            Self::Legacy => "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1",
        }
    }
}
