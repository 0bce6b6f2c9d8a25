//! What can go wrong in the built-in network.

use std::io;

use berth_core::{Classified, ErrorClass};

use crate::leases::LeaseError;
use crate::netlink::NetlinkError;
use crate::netns::NetnsError;
use crate::subnet::Subnet;

/// The built-in network refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum BuiltinError {
    /// The kernel refused a step.
    #[error("built-in network: {0}")]
    Netlink(#[from] NetlinkError),
    /// The pod's namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The keeper of leases.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// An armed fault point.
    #[error(transparent)]
    Fault(#[from] berth_core::fault::Injected),
    /// The settings cannot work.
    #[error("built-in network: {why}; correct [network.builtin]")]
    Settings {
        /// What is wrong.
        why: String,
    },
    /// The subnet is used by something else on this node.
    #[error(
        "subnet {subnet} overlaps the route {route} of interface {interface}; \
         set [network.builtin] subnets to a range that this node does not reach otherwise"
    )]
    SubnetInUse {
        /// Ours.
        subnet: Subnet,
        /// The other one.
        route: Subnet,
        /// Where it leads.
        interface: String,
    },
    /// The bridge's name belongs to something else.
    #[error(
        "interface {name} is there and is a {kind}, no bridge; set [network.builtin] bridge to another name"
    )]
    NotABridge {
        /// The name.
        name: String,
        /// Its kind.
        kind: String,
    },
    /// Every address is leased.
    #[error(
        "subnet {subnet} has no free address: {pods} pods hold them all; set a larger one in [network.builtin] subnets"
    )]
    Full {
        /// The subnet.
        subnet: Subnet,
        /// How many it can hold.
        pods: u128,
    },
    /// A host port leads elsewhere.
    #[error("host port {port} is mapped to another pod already ({source}); use another hostPort")]
    PortTaken {
        /// The port with protocol and address.
        port: String,
        /// What the kernel said.
        #[source]
        source: NetlinkError,
    },
    /// A kernel setting could not be made.
    #[error("cannot set {key}: {source}")]
    Sysctl {
        /// The file below /proc/sys.
        key: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The pod is not attached as recorded.
    #[error("pod interface is not as recorded: {why}")]
    Drifted {
        /// What differs.
        why: String,
    },
}

impl Classified for BuiltinError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Full { .. } => ErrorClass::ResourceExhausted,
            Self::PortTaken { .. }
            | Self::SubnetInUse { .. }
            | Self::NotABridge { .. }
            | Self::Settings { .. }
            | Self::Drifted { .. } => ErrorClass::FailedPrecondition,
            _ => ErrorClass::Internal,
        }
    }
}
