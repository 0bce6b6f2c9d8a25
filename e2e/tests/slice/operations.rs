//! Requests that come twice, at once, changed, or whose caller goes away: a kubelet does all of that.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Context, Pod};
use berth_e2e::{check, podspec, tests};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::time::Duration;
use tonic::Code;

tests![
    same_pod_request,
    pod_requests_at_once,
    changed_pod_request,
    same_container_request,
    callers_that_go_away,
    everything_goes_with_the_pod,
    created_at_rises,
];

async fn same_pod_request(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("twice").await?;
    let again = bed.cri().await?.run_pod(&pod.config).await?;
    check!(again == pod.id, "the same request made another pod");
    bed.node.kill_daemon().await?;
    bed.node.start_daemon().await?;
    let again = bed.cri().await?.run_pod(&pod.config).await?;
    check!(again == pod.id, "after a restart the same request made another pod");
    bed.cri().await?.stop_pod(&pod.id).await?;
    let refused =
        bed.cri().await?.run_pod(&pod.config).await.err().context("a stopped pod was given again")?;
    check!(refused.code() == Code::AlreadyExists && refused.message().contains(&pod.id), "{refused}");
    bed.cri().await?.remove_pod(&pod.id).await?;
    let fresh = bed.run_pod(pod.config.clone()).await?;
    check!(fresh.id != pod.id, "a removed pod's id came back");
    Ok(())
}

async fn pod_requests_at_once(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let config = podspec::pod(&bed.node, "at-once");
    let cri = bed.cri().await?;
    let calls = (0..12).map(|_| {
        let (mut cri, config) = (cri.clone(), config.clone());
        async move { cri.run_pod(&config).await }
    });
    let ids: BTreeSet<String> = join_all(calls).await.into_iter().collect::<Result<_, _>>()?;
    ids.iter().for_each(|id| bed.node.remember(id));
    check!(ids.len() == 1, "one request, {} pods", ids.len());
    check!(bed.cri().await?.pods().await?.len() == 1, "more than one pod is listed");
    Ok(())
}

async fn changed_pod_request(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("changed").await?;
    let mut other = pod.config.clone();
    other.labels.insert("new".to_owned(), "label".to_owned());
    let refused = bed.cri().await?.run_pod(&other).await.err().context("another pod under the same name")?;
    check!(refused.code() == Code::AlreadyExists, "{refused}");
    check!(refused.message().contains(&pod.id), "the pod that is there is not named: {refused}");
    // The next attempt is another pod.
    other.metadata.get_or_insert_default().attempt = 1;
    let next = bed.run_pod(other).await?;
    check!(next.id != pod.id, "attempt 1 is the pod of attempt 0");
    check!(bed.cri().await?.pods().await?.len() == 2, "not two pods");
    Ok(())
}

async fn same_container_request(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("pod").await?;
    let config = podspec::container("c", &image, &["sleep", "1000"]);
    let id = bed.create(&pod, &config).await?;
    check!(bed.create(&pod, &config).await? == id, "the same request made another container");
    bed.cri().await?.start(&id).await?;
    let mut other = config.clone();
    other.command.push("more".to_owned());
    let refused = bed.cri().await?.create(&pod.id, &other, &pod.config).await;
    let refused = refused.err().context("another container under the same name")?;
    check!(refused.code() == Code::AlreadyExists && refused.message().contains(&id), "{refused}");
    other.metadata.get_or_insert_default().attempt = 1;
    let next = bed.create(&pod, &other).await?;
    check!(next != id, "attempt 1 is the container of attempt 0");
    Ok(())
}

/// A caller's time-out cancels nothing: the same request later finds the same pod, and one only.
async fn callers_that_go_away(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    for wait in [0, 2, 5, 10, 20, 40, 80] {
        let config = podspec::pod(&bed.node, &format!("left{wait}"));
        let mut cri = bed.cri().await?;
        let _ = tokio::time::timeout(Duration::from_millis(wait), cri.run_pod(&config)).await;
        let pod = bed.run_pod(config).await?;
        bed.busybox_in(&pod, "c", "sleep 1000").await?;
    }
    let pods = bed.cri().await?.pods().await?;
    check!(pods.len() == 7, "{} pods of 7 requests", pods.len());
    Ok(())
}

/// RemovePodSandbox takes what still runs with it.
async fn everything_goes_with_the_pod(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("whole").await?;
    let running = bed.busybox_in(&pod, "running", "sleep 1000").await?;
    let ended = bed.busybox_in(&pod, "ended", "exit 0").await?;
    bed.ended(&ended).await?;
    let image = bed.image("busybox:1");
    let created = bed.create(&pod, &podspec::container("created", &image, &["true"])).await?;
    bed.cri().await?.remove_pod(&pod.id).await?;
    check!(bed.cri().await?.pods().await?.is_empty(), "the pod is still listed");
    check!(bed.cri().await?.containers().await?.is_empty(), "its containers are still listed");
    for id in [running, ended, created] {
        let status = bed.cri().await?.container(&id).await;
        check!(status.is_err_and(|e| e.code() == Code::NotFound), "{id} is still known");
    }
    Ok(())
}

/// The kubelet orders the sandboxes of a pod by it.
async fn created_at_rises(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let mut last = 0;
    for attempt in 0..6 {
        let mut config = podspec::pod(&bed.node, "rising");
        config.metadata.get_or_insert_default().attempt = attempt;
        let Pod { id, .. } = bed.run_pod(config).await?;
        let created = bed.cri().await?.pod(&id).await?.created_at;
        check!(created > last, "attempt {attempt} was created at {created}, the one before at {last}");
        last = created;
        bed.cri().await?.stop_pod(&id).await?;
    }
    Ok(())
}
