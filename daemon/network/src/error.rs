//! What the manager answers when an attachment fails.

use berth_core::{Classified, ErrorClass};

use crate::builtin::BuiltinError;
use crate::cni::CniError;
use crate::leases::LeaseError;
use crate::netns::NetnsError;

/// A pod could not be attached, detached or looked at.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The pod's namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The built-in network.
    #[error(transparent)]
    Builtin(#[from] BuiltinError),
    /// CNI.
    #[error(transparent)]
    Cni(Box<CniError>),
    /// The keeper of leases.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// An armed fault point.
    #[error(transparent)]
    Fault(#[from] berth_core::fault::Injected),
}

impl NetworkError {
    /// Whether a plugin that DEL needs is not on this node any more: trying again soon is of no use.
    pub fn plugin_gone(&self) -> bool {
        matches!(self, NetworkError::Cni(error) if matches!(**error, CniError::PluginMissing { .. }))
    }
}

impl From<CniError> for NetworkError {
    fn from(error: CniError) -> Self {
        // Boxed because it carries four texts, and every result of the manager would be as large.
        Self::Cni(Box::new(error))
    }
}

impl Classified for NetworkError {
    fn class(&self) -> ErrorClass {
        match self {
            NetworkError::Netns(_) | NetworkError::Lease(_) | NetworkError::Fault(_) => ErrorClass::Internal,
            NetworkError::Builtin(error) => error.class(),
            NetworkError::Cni(error) => error.class(),
        }
    }
}
