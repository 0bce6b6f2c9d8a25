//! The daemon is killed; pods do not notice, and nothing is lost, doubled or forgotten.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context, Pod};
use berth_e2e::{check, podspec, procfs, tests};
use berth_proto::cri as wire;
use std::collections::BTreeMap;
use std::time::Duration;

tests![counters_survive_kill, exits_are_not_lost, addresses_survive, restart_is_quick];

/// Counts fifty times a second.
const COUNTER: &str = "i=0; while true; do echo $i; i=$((i+1)); usleep 20000; done";

/// What must not change over a restart.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    pid: i32,
    attempt: u32,
    created_at: i64,
    started_at: i64,
    image_id: String,
}

async fn fixed(bed: &Bed) -> Result<BTreeMap<String, Fixed>> {
    let mut cri = bed.cri().await?;
    let mut found = BTreeMap::new();
    for container in cri.containers().await? {
        let status = cri.container(&container.id).await?;
        check!(status.state() == wire::ContainerState::ContainerRunning, "{status:?}");
        let fixed = Fixed {
            pid: procfs::init_of(&container.id).context("a container without a process")?,
            attempt: status.metadata.as_ref().map_or(0, |m| m.attempt),
            created_at: status.created_at,
            started_at: status.started_at,
            image_id: status.image_id,
        };
        found.insert(container.id, fixed);
    }
    Ok(found)
}

async fn ten(bed: &Bed) -> Result<Vec<(Pod, String)>> {
    let mut pods = Vec::new();
    for number in 0..10 {
        let pod = bed.pod(&format!("count{number}")).await?;
        let id = bed.busybox_in(&pod, "counter", COUNTER).await?;
        pods.push((pod, id));
    }
    Ok(pods)
}

async fn counters_survive_kill(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pods = ten(&bed).await?;
    for (pod, _) in &pods {
        bed.log(pod, "counter", 20).await?;
    }
    let before = fixed(&bed).await?;
    check!(before.len() == 10, "{} containers", before.len());
    for _ in 0..3 {
        bed.node.kill_daemon().await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        bed.node.start_daemon().await?;
        let after = fixed(&bed).await?;
        check!(after == before, "before {before:?}\nafter {after:?}");
    }
    for (_, id) in &pods {
        check!(bed.exec(id, "echo well").await? == "well\n", "exec after the restart");
    }
    for (pod, id) in &pods {
        bed.cri().await?.stop(id, 0).await?;
        consecutive(&bed.log(pod, "counter", 20).await?)?;
    }
    Ok(())
}

/// 0, 1, 2, … with none missing and none twice.
fn consecutive(log: &str) -> Result<()> {
    for (at, line) in log.lines().enumerate() {
        check!(line.parse() == Ok(at), "line {at} of the log says {line:?}");
    }
    Ok(())
}

async fn exits_are_not_lost(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("exits").await?;
    let mut ids = Vec::new();
    for code in [0, 3, 42] {
        let script = format!("while [ ! -e /tmp/go ]; do usleep 2000; done; exit {code}");
        let id = bed.busybox_in(&pod, &format!("c{code}"), &script).await?;
        ids.push((id, code));
    }
    let killed = bed.busybox_in(&pod, "killed", "exec sleep 1000").await?;
    let roots: Vec<i32> = ids.iter().filter_map(|(id, _)| procfs::init_of(id)).collect();
    check!(roots.len() == 3, "{roots:?}");
    let victim = procfs::init_of(&killed).context("no process to kill")?;
    bed.node.kill_daemon().await?;
    let before = now();
    for root in roots {
        std::fs::write(format!("/proc/{root}/root/tmp/go"), "")?;
    }
    let victim = rustix::process::Pid::from_raw(victim).context("pid 0")?;
    rustix::process::kill_process(victim, rustix::process::Signal::KILL)?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = now();
    bed.node.start_daemon().await?;
    ids.push((killed, 137));
    for (id, code) in ids {
        let status = bed.ended(&id).await?;
        check!(status.exit_code == code, "{code} became {}: {status:?}", status.exit_code);
        let within = (before..=after).contains(&status.finished_at);
        check!(within, "finished at {}, between {before} and {after}", status.finished_at);
        let reason = if code == 0 { "Completed" } else { "Error" };
        check!(status.reason == reason, "{code}: {:?}", status.reason);
    }
    Ok(())
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |t| i64::try_from(t.as_nanos()).unwrap_or(0))
}

async fn addresses_survive(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let one = bed.pod("one").await?;
    let two = bed.run_pod(podspec::host_network(&bed.node, "two")).await?;
    let mut cri = bed.cri().await?;
    let before = (cri.pod(&one.id).await?, cri.pod(&two.id).await?);
    check!(before.0.network.as_ref().is_some_and(|n| !n.ip.is_empty()), "{:?}", before.0);
    bed.node.kill_daemon().await?;
    bed.node.start_daemon().await?;
    let mut cri = bed.cri().await?;
    let after = (cri.pod(&one.id).await?, cri.pod(&two.id).await?);
    check!(before == after, "before {before:?}\nafter {after:?}");
    let three = bed.pod("three").await?;
    let network = bed.cri().await?.pod(&three.id).await?.network;
    check!(network != after.0.network, "an address was given twice: {network:?}");
    Ok(())
}

async fn restart_is_quick(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    for number in 0..10 {
        let pod = bed.pod(&format!("idle{number}")).await?;
        bed.busybox_in(&pod, "idle", "exec sleep 1000").await?;
    }
    bed.node.kill_daemon().await?;
    let took = bed.node.start_daemon().await?;
    check!(bed.cri().await?.pods().await?.len() == 10, "not all pods are listed");
    // The aim is 0.2 s for 30 pods; other tests run beside this one.
    check!(took < Duration::from_secs(2), "until it answered: {took:?}");
    Ok(())
}
