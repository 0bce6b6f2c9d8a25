//! ContainerStats and ListContainerStats.

use super::list::{Filter, State, list};
use crate::pod::{Error, Pods};
use crate::stats::{self, ContainerStats};

/// The figures of one container.
///
/// # Errors
/// There is no such container.
pub async fn stats(pods: &Pods, id: &str) -> Result<ContainerStats, Error> {
    let record = super::status(pods, id)?;
    Ok(stats::container(pods.ground(), &record).await)
}

/// The figures of the running containers that fit, newest first.
pub async fn list_stats(pods: &Pods, filter: &Filter) -> Vec<ContainerStats> {
    let running = Filter { state: Some(State::Running), ..filter.clone() };
    let records = list(pods, &running);
    let figures = records.iter().map(|record| stats::container(pods.ground(), record));
    futures_util::future::join_all(figures).await
}
