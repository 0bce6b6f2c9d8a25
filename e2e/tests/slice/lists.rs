//! Lists and their filters, and how soon they answer while much is going on.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context};
use berth_e2e::{check, podspec, tests};
use berth_proto::cri as wire;
use futures_util::future::join_all;
use std::time::{Duration, Instant};

tests![order_and_filters, lists_answer_under_load, read_your_writes];

async fn pods(bed: &Bed, filter: wire::PodSandboxFilter) -> Result<Vec<String>> {
    let request = wire::ListPodSandboxRequest { filter: Some(filter) };
    let items = bed.cri().await?.runtime.list_pod_sandbox(request).await?.into_inner().items;
    Ok(items.into_iter().map(|pod| pod.metadata.unwrap_or_default().name).collect())
}

async fn containers(bed: &Bed, filter: wire::ContainerFilter) -> Result<Vec<String>> {
    let request = wire::ListContainersRequest { filter: Some(filter) };
    let items = bed.cri().await?.runtime.list_containers(request).await?.into_inner().containers;
    Ok(items.into_iter().map(|container| container.metadata.unwrap_or_default().name).collect())
}

async fn order_and_filters(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let a = bed.pod("a").await?;
    let b = bed.pod("b").await?;
    let c = bed.pod("c").await?;
    check!(pods(&bed, wire::PodSandboxFilter::default()).await? == ["c", "b", "a"], "not the newest first");
    bed.cri().await?.stop_pod(&b.id).await?;
    let state = |state: wire::PodSandboxState| Some(wire::PodSandboxStateValue { state: state.into() });
    let filter = |state| wire::PodSandboxFilter { state, ..Default::default() };
    let ready = pods(&bed, filter(state(wire::PodSandboxState::SandboxReady))).await?;
    check!(ready == ["c", "a"], "ready: {ready:?}");
    let stopped = pods(&bed, filter(state(wire::PodSandboxState::SandboxNotready))).await?;
    check!(stopped == ["b"], "not ready: {stopped:?}");
    let label = [("app".to_owned(), "a".to_owned())].into();
    let labelled = pods(&bed, wire::PodSandboxFilter { label_selector: label, ..Default::default() }).await?;
    check!(labelled == ["a"], "by label: {labelled:?}");
    let by_id = pods(&bed, wire::PodSandboxFilter { id: c.id.clone(), ..Default::default() }).await?;
    check!(by_id == ["c"], "by id: {by_id:?}");
    bed.busybox_in(&a, "runs", "sleep 1000").await?;
    let ended = bed.busybox_in(&c, "ended", "true").await?;
    bed.ended(&ended).await?;
    check!(containers(&bed, wire::ContainerFilter::default()).await? == ["ended", "runs"], "order");
    let exited = wire::ContainerStateValue { state: wire::ContainerState::ContainerExited.into() };
    let found = containers(&bed, wire::ContainerFilter { state: Some(exited), ..Default::default() }).await?;
    check!(found == ["ended"], "by state: {found:?}");
    let found =
        containers(&bed, wire::ContainerFilter { pod_sandbox_id: a.id, ..Default::default() }).await?;
    check!(found == ["runs"], "by pod: {found:?}");
    Ok(())
}

/// Cheap calls have their own way: they do not stand behind pods that are being made.
async fn lists_answer_under_load(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let cri = bed.cri().await?;
    let make = (0..8).map(|number| {
        let (mut cri, node) = (cri.clone(), bed.node.clone());
        let image = image.clone();
        async move {
            let config = podspec::pod(&node, &format!("load{number}"));
            let pod = cri.run_pod(&config).await?;
            node.remember(&pod);
            let mut container = podspec::container("c", &image, &["sleep", "1000"]);
            podspec::join(&mut container, &config);
            let id = cri.create(&pod, &container, &config).await?;
            node.remember(&id);
            cri.start(&id).await
        }
    });
    let making = tokio::spawn(join_all(make.collect::<Vec<_>>()));
    let mut times = Vec::new();
    let mut caller = bed.cri().await?;
    while !making.is_finished() {
        let begun = Instant::now();
        caller.pods().await?;
        caller.containers().await?;
        times.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for made in making.await? {
        made?;
    }
    times.sort_unstable();
    let median = *times.get(times.len() / 2).context("no list was asked")?;
    // Other tests run beside this one; alone it is one or two milliseconds.
    check!(median < Duration::from_millis(100), "two lists took {median:?} in the median");
    Ok(())
}

/// What a call has answered is seen by the next one.
async fn read_your_writes(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("seen").await?;
    let mut cri = bed.cri().await?;
    for number in 0..15 {
        let config = podspec::container(&format!("c{number}"), &image, &["sleep", "1000"]);
        let id = bed.create(&pod, &config).await?;
        check!(cri.container(&id).await?.state() == wire::ContainerState::ContainerCreated, "after create");
        cri.start(&id).await?;
        check!(cri.container(&id).await?.state() == wire::ContainerState::ContainerRunning, "after start");
        cri.stop(&id, 0).await?;
        check!(cri.container(&id).await?.state() == wire::ContainerState::ContainerExited, "after stop");
        cri.remove(&id).await?;
        check!(cri.containers().await?.is_empty(), "after remove");
    }
    Ok(())
}
