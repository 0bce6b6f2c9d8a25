//! The noun "pod sandbox": what it is asked to be, what is kept of it, and the steps that make and unmake it.

mod check;
mod config;
mod end;
mod files;
mod network;
mod record;
mod run;
mod shm;
mod sysctl;

pub(crate) use check::{check, identity};
pub use config::{
    DnsConfig, HugepageLimit, IdMapping, NamespaceMode, Namespaces, PortMapping, Protocol, Resources,
    SandboxConfig, SandboxKey, SandboxSecurity, SecurityProfile, UserNamespace,
};
pub(crate) use end::{sweep, tear_down, unmake};
pub(crate) use files::FILES;
pub use record::{Live, NamespacePaths, SandboxNetwork, SandboxRecord, SandboxState};
pub(crate) use run::{Made, NotMade, run};
