//! A pod's network: namespaces, loopback, the built-in bridge, CNI plugins.
//!
//! Everything here is blocking and takes no runtime; the daemon calls it through its blocking helper.
//! The order that survives a crash at any point:
//!
//! 1. [`Netns::create`] pins the pod's namespace.
//! 2. [`Manager::plan`] decides who will attach the pod and writes nothing but a record; the caller saves it.
//! 3. [`Manager::setup`] attaches the pod; the caller saves the finished record.
//! 4. [`Manager::teardown`] takes either record, as often as it takes.
//! 5. [`Netns::remove`] drops the namespace and with it the pod's interfaces.

pub mod attachment;
pub mod builtin;
pub mod cni;
pub mod error;
pub mod faults;
pub mod leases;
pub mod manager;
mod netlink;
pub mod netns;
pub mod pod;
pub mod settings;
pub mod status;
pub mod subnet;

pub use attachment::{Attachment, PodIp};
pub use error::NetworkError;
pub use leases::{Lease, LeaseError, Leases, MemoryLeases};
pub use manager::Manager;
pub use netns::Netns;
pub use pod::PodNet;
pub use settings::{Mode, Settings};
pub use status::NetworkStatus;
pub use subnet::Subnet;
