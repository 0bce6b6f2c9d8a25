//! PodSandboxStats and ListPodSandboxStats.

use super::list::{Filter, list};
use crate::pod::{Error, Pods};
use crate::stats::{self, PodStats};

/// The figures of one sandbox and its containers.
///
/// # Errors
/// There is no such sandbox.
pub async fn stats(pods: &Pods, id: &str) -> Result<PodStats, Error> {
    let found = pods.find_sandbox(id)?;
    let view = pods.view(found).ok_or_else(|| Error::NoSandbox(id.to_owned()))?;
    stats::pod(pods.ground(), &view).await.ok_or_else(|| Error::NoSandbox(id.to_owned()))
}

/// The figures of the sandboxes that fit, newest first. One that went meanwhile is left out.
pub async fn list_stats(pods: &Pods, filter: &Filter) -> Vec<PodStats> {
    let views: Vec<_> = list(pods, filter).into_iter().filter_map(|record| pods.view(record.id)).collect();
    let figures = views.iter().map(|view| stats::pod(pods.ground(), view));
    futures_util::future::join_all(figures).await.into_iter().flatten().collect()
}
