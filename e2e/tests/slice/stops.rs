//! Stopping: grace periods, signals, what goes on meanwhile.

use anyhow::Result;
use berth_e2e::harness::{Bed, Context};
use berth_e2e::image::ImageBuilder;
use berth_e2e::{check, podspec, samples, tests};
use berth_proto::cri as wire;
use serde_json::json;
use std::time::{Duration, Instant};

tests![
    graceful_end,
    grace_runs_out,
    two_stops_share,
    nothing_waits_for_a_stop,
    signal_of_the_image,
    stop_is_idempotent
];

const DEAF: &str = "trap '' TERM; echo up; while true; do sleep 0.1; done";

async fn graceful_end(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("polite").await?;
    let script = "trap 'echo bye; exit 5' TERM; echo up; while true; do sleep 0.05; done";
    let id = bed.busybox_in(&pod, "c", script).await?;
    bed.log(&pod, "c", 1).await?;
    let begun = Instant::now();
    bed.cri().await?.stop(&id, 10).await?;
    check!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    let status = bed.cri().await?.container(&id).await?;
    check!(status.exit_code == 5 && status.reason == "Error", "{status:?}");
    check!(bed.log(&pod, "c", 2).await? == "up\nbye", "its last word is missing");
    Ok(())
}

async fn deaf(bed: &Bed, name: &str) -> Result<String> {
    let pod = bed.pod(name).await?;
    let id = bed.busybox_in(&pod, "c", DEAF).await?;
    bed.log(&pod, "c", 1).await?;
    Ok(id)
}

async fn grace_runs_out(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let id = deaf(&bed, "deaf").await?;
    let begun = Instant::now();
    bed.cri().await?.stop(&id, 2).await?;
    let took = begun.elapsed().as_millis();
    check!((1900..6000).contains(&took), "a grace of 2 s took {took} ms");
    let status = bed.cri().await?.container(&id).await?;
    check!(status.exit_code == 137, "{status:?}");
    Ok(())
}

/// The shorter deadline wins for both.
async fn two_stops_share(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let id = deaf(&bed, "shared").await?;
    let (mut one, mut two) = (bed.cri().await?, bed.cri().await?);
    let begun = Instant::now();
    let late = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        two.stop(&id, 1).await
    };
    let (first, second) = tokio::join!(one.stop(&id, 60), late);
    first?;
    second?;
    check!(begun.elapsed() < Duration::from_secs(8), "the longer grace won: {:?}", begun.elapsed());
    Ok(())
}

async fn nothing_waits_for_a_stop(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let id = deaf(&bed, "busy").await?;
    let mut cri = bed.cri().await?;
    let (mut stopping, of) = (bed.cri().await?, id.clone());
    let stop = tokio::spawn(async move { stopping.stop(&of, 3).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    check!(bed.exec(&id, "echo well").await? == "well\n", "exec during a stop");
    let status = cri.container(&id).await?;
    check!(status.state() == wire::ContainerState::ContainerRunning, "{status:?}");
    check!(cri.containers().await?.len() == 1, "list during a stop");
    let took = begun.elapsed();
    check!(took < Duration::from_secs(2) && !stop.is_finished(), "they waited for the stop: {took:?}");
    stop.await??;
    Ok(())
}

async fn signal_of_the_image(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image =
        ImageBuilder::new().layer(samples::busybox_layer()?).config("StopSignal", json!("SIGUSR1")).build();
    bed.registry.push("signal", "1", &image);
    let name = bed.image("signal:1");
    bed.cri().await?.pull(&name).await?;
    let pod = bed.pod("signal").await?;
    let script =
        "trap 'exit 7' USR1; trap 'exit 8' TERM; trap 'exit 9' INT; echo up; while true; do sleep 0.05; done";
    let id = bed.start(&pod, &podspec::container("c", &name, &["sh", "-c", script])).await?;
    bed.log(&pod, "c", 1).await?;
    bed.cri().await?.stop(&id, 10).await?;
    let status = bed.cri().await?.container(&id).await?;
    check!(status.exit_code == 7, "the image asks for SIGUSR1: {status:?}");
    Ok(())
}

async fn stop_is_idempotent(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("again").await?;
    let id = bed.busybox_in(&pod, "c", "exit 3").await?;
    let before = bed.ended(&id).await?;
    let mut cri = bed.cri().await?;
    cri.stop(&id, 0).await?;
    cri.stop(&id, 0).await?;
    let after = cri.container(&id).await?;
    check!(after == before, "a stop changed what had ended: {after:?}, before: {before:?}");
    cri.stop_pod(&pod.id).await?;
    cri.stop_pod(&pod.id).await?;
    check!(cri.container(&id).await?.exit_code == 3, "the exit code is lost with the pod's end");
    Ok(())
}
