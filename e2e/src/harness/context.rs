//! What a test is given: nodes and registries that are taken down after it, and a way to say "skipped".

use super::bed::Bed;
use crate::node::{Node, Settings};
use crate::registry::Registry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The surroundings of one test.
#[derive(Clone, Default)]
pub struct Context {
    nodes: Arc<Mutex<Vec<Arc<Node>>>>,
}

/// Why a test did not run.
#[derive(Debug)]
pub(super) struct Skipped(pub(super) String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

impl Context {
    /// A running node with the usual settings.
    pub async fn node(&self) -> anyhow::Result<Arc<Node>> {
        self.node_with(Settings::default()).await
    }

    /// A running node.
    pub async fn node_with(&self, settings: Settings) -> anyhow::Result<Arc<Node>> {
        let node = self.prepared(settings)?;
        node.start_daemon().await?;
        Ok(node)
    }

    /// A node whose daemon has not been started.
    pub fn prepared(&self, settings: Settings) -> anyhow::Result<Arc<Node>> {
        let node = Arc::new(Node::prepare(settings)?);
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(node.clone());
        Ok(node)
    }

    /// A running node with a registry that serves the sample images.
    pub async fn bed(&self) -> anyhow::Result<Bed> {
        self.bed_with(Settings::default()).await
    }

    /// A running node of some kind with a registry that serves the sample images.
    pub async fn bed_with(&self, settings: Settings) -> anyhow::Result<Bed> {
        let bed = self.lay(self.prepared(settings)?).await?;
        bed.node.start_daemon().await?;
        Ok(bed)
    }

    /// A registry with the sample images for a prepared node, whose daemon is the caller's to start.
    pub async fn lay(&self, node: Arc<Node>) -> anyhow::Result<Bed> {
        Bed::lay(node, Registry::start().await?)
    }

    /// The end of a test that cannot run here; the reason is shown and counted.
    pub fn skip(&self, reason: &str) -> anyhow::Error {
        Skipped(reason.to_owned()).into()
    }

    /// The nodes made so far.
    pub(super) fn take_nodes(&self) -> Vec<Arc<Node>> {
        std::mem::take(&mut *self.nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
