//! Scopes when systemd is not at its best: reloading all the time, with a failed unit of the same name, stopped by hand.

use super::case::{Case, spec};
use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::vm::Mode;
use berth_e2e::{check, tests};
use serde_json::json;

tests![; long [disturbed, hybrid, legacy]];

const SLEEP: &str = "while :; do sleep 100; done";

async fn disturbed(_context: Context) -> Result<()> {
    let mut case = Case::systemd(Mode::Unified).await?;
    failed_before(&mut case).await?;
    reloading(&mut case).await
}

/// A unit of the container's name that failed and stays loaded is put aside; one that runs is refused, and lives on.
async fn failed_before(case: &mut Case) -> Result<()> {
    case.ok("systemd-run --quiet --scope --unit berth-again -p RuntimeMaxSec=1 sleep 1000 || :\n\
        until_true 'systemctl is-failed --quiet berth-again.scope'")
        .await?;
    let again = spec("berthcase.slice:berth:again", &json!({"pids": {"limit": 33}}), SLEEP);
    case.start("again", &again).await?;
    case.files("again", &[("pids.max", "33")]).await?;
    let text = case.refused("other", &again).await?;
    check!(text.contains("berth-again.scope"), "{text}");
    case.ok("systemctl is-active --quiet berth-again.scope; oci exec again true").await?;
    // The administrator's hand: the container ends, and is deleted like any other.
    case.ok(
        "systemctl stop berth-again.scope; until_true 'oci state again | grep -q stopped'; oci delete again",
    )
    .await?;
    case.properties("berth-again.scope", &[("LoadState", "not-found")]).await
}

async fn reloading(case: &mut Case) -> Result<()> {
    case.ok("(while [ ! -e /root/enough ]; do systemctl daemon-reload; sleep 0.2; done) >/dev/null 2>&1 &")
        .await?;
    let resources =
        json!({"memory": {"limit": 67_108_864}, "cpu": {"shares": 512, "quota": 20_000, "period": 50_000}});
    for round in 0..3 {
        let name = format!("turn{round}");
        case.start(&name, &spec(&format!("berthcase.slice:berth:{name}"), &resources, SLEEP)).await?;
        case.ok(&format!(
            "oci update --memory 134217728 --memory-swap 134217728 {name}; oci exec {name} true"
        ))
        .await?;
        case.files(&name, &[("memory.max", "134217728"), ("cpu.weight", "59"), ("cpu.max", "20000 50000")])
            .await?;
        case.delete(&name).await?;
    }
    case.ok("touch /root/enough").await.map(drop)
}

async fn hybrid(_context: Context) -> Result<()> {
    older(Mode::Hybrid).await
}

async fn legacy(_context: Context) -> Result<()> {
    older(Mode::Legacy).await
}

/// The scope in systemd's own groups, every other hierarchy joined by hand below the slice's path, all gone at the end.
async fn older(mode: Mode) -> Result<()> {
    let mut case = Case::systemd(mode).await?;
    let resources = json!({
        "memory": {"limit": 67_108_864}, "cpu": {"shares": 512, "quota": 20_000, "period": 50_000, "cpus": "0"},
        "pids": {"limit": 50},
        "devices": [{"allow": false, "access": "rwm"}, {"allow": true, "type": "c", "major": 1, "minor": 11, "access": "r"}],
    });
    case.start("older", &spec("berthcase.slice:berth:older", &resources, SLEEP)).await?;
    let path = "/berthcase.slice/berth-older.scope";
    let groups = case.ok("cat /proc/$(cat /root/older.pid)/cgroup").await?;
    let elsewhere: Vec<&str> = groups.lines().filter(|line| !line.ends_with(path)).collect();
    check!(elsewhere.is_empty(), "not below the slice: {elsewhere:?}");
    check!(groups.contains(":name=systemd:") && groups.contains(":memory:"), "{groups}");
    check!(groups.lines().any(|line| line.starts_with("0::")) == (mode == Mode::Hybrid), "{groups}");
    limits(&mut case, path, "67108864 512 20000 0 50").await?;
    case.properties(
        "berth-older.scope",
        &[("MemoryLimit", "67108864"), ("CPUShares", "512"), ("TasksMax", "50")],
    )
    .await?;
    case.ok("systemctl daemon-reload").await?;
    limits(&mut case, path, "67108864 512 20000 0 50").await?;
    case.ok("oci update --memory 134217728 --pids-limit 60 older; systemctl daemon-reload").await?;
    limits(&mut case, path, "134217728 512 20000 0 60").await?;
    case.ok("oci exec older true; oci pause older; oci resume older").await?;
    case.ok("grep -q 'c 1:11 r' /sys/fs/cgroup/devices/berthcase.slice/berth-older.scope/devices.list")
        .await?;
    case.delete("older").await?;
    let slices = case.ok("systemctl stop berthcase.slice; find /sys/fs/cgroup -name 'berth-*.scope'").await?;
    check!(slices.is_empty(), "{slices}");
    case.properties("berth-older.scope", &[("LoadState", "not-found")]).await
}

async fn limits(case: &mut Case, path: &str, wanted: &str) -> Result<()> {
    let told = case
        .ok(&format!(
            "cd /sys/fs/cgroup; echo $(cat memory{path}/memory.limit_in_bytes cpu,cpuacct{path}/cpu.shares \
        cpu,cpuacct{path}/cpu.cfs_quota_us cpuset{path}/cpuset.cpus pids{path}/pids.max)"
        ))
        .await?;
    check!(told == wanted, "{told}, wanted {wanted}");
    Ok(())
}
