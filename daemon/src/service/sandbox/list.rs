//! ListPodSandbox.

use crate::pod::Pods;
use crate::sandbox::SandboxRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which sandboxes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// An id or the beginning of one; empty for all.
    pub id: String,
    /// Ready, not ready, or both.
    pub ready: Option<bool>,
    /// Labels that it must have.
    pub labels: BTreeMap<String, String>,
}

impl Filter {
    fn fits(&self, record: &SandboxRecord) -> bool {
        record.id.as_str().starts_with(&self.id)
            && self.ready.is_none_or(|ready| ready == record.is_ready())
            && self.labels.iter().all(|(key, value)| record.config.labels.get(key) == Some(value))
    }
}

/// The sandboxes that fit, newest first.
#[must_use]
pub fn list(pods: &Pods, filter: &Filter) -> Vec<Arc<SandboxRecord>> {
    let views = pods.views();
    let all = views.iter().filter_map(|view| view.sandbox.as_ref());
    let mut fitting: Vec<_> = all.filter(|record| filter.fits(record)).cloned().collect();
    fitting.sort_by(|a, b| b.created_at.cmp(&a.created_at).then(a.id.cmp(&b.id)));
    fitting
}
