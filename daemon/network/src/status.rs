//! Whether pods can be attached now: the NetworkReady condition.

use serde::{Deserialize, Serialize};

/// The answer for the NetworkReady condition of CRI Status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// Whether a pod can be attached.
    pub ready: bool,
    /// One CamelCase word; empty when ready.
    pub reason: String,
    /// For people: what is wrong and what to do; when ready, who attaches pods.
    pub message: String,
    /// Configuration files that were skipped, each with its reason, sorted.
    pub skipped: Vec<String>,
}

impl NetworkStatus {
    /// Ready, with a word about who attaches pods.
    pub fn ready(message: impl Into<String>) -> Self {
        Self { ready: true, reason: String::new(), message: message.into(), skipped: Vec::new() }
    }

    /// Not ready.
    pub fn not_ready(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { ready: false, reason: reason.into(), message: message.into(), skipped: Vec::new() }
    }
}
