//! What cgroup v2 gives beside limits: killing and freezing whole groups, pressure, OOM told, nested groups removed.

use super::case::{Case, spec};
use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::vm::Mode;
use berth_e2e::{check, tests};
use serde_json::json;

tests![; long [ends, moved]];

/// init makes groups below its own, moves a process there and goes on; everything ends with the container.
const NESTED: &str = "mkdir -p /sys/fs/cgroup/inner/most; sleep 1000 & echo $! >/sys/fs/cgroup/inner/most/cgroup.procs; \
    sleep 1000 & while :; do echo $((n=n+1)) >/count; usleep 50000; done";

async fn ends(_context: Context) -> Result<()> {
    let mut case = Case::cgroupfs(Mode::Unified).await?;
    case.start("nested", &spec("/berth-case/nested", &json!({}), NESTED)).await?;
    let group = "/sys/fs/cgroup$(unified nested)";
    case.ok(&format!("until_true 'grep -q . {group}/inner/most/cgroup.procs'")).await?;
    // Frozen, nothing counts; thawed, it goes on.
    let frozen = "oci pause nested; oci state nested | grep -q '\"paused\"'; a=$(cat /root/rootfs/count); sleep 2; \
        [ $a = $(cat /root/rootfs/count) ] || fail still counting; oci resume nested; until_true '[ $a != \"$(cat /root/rootfs/count)\" ]'";
    case.ok(frozen).await?;
    let events = case.ok("oci events --stats nested").await?;
    for word in ["\"pids\"", "\"memory\"", "\"cpu\""] {
        check!(events.contains(word), "no {word} in {events}");
    }
    // All at once, also what moved into groups below, and also while frozen.
    case.ok(&format!("oci pause nested; pids=$(find {group} -name cgroup.procs | xargs cat); [ $(echo $pids | wc -w) -ge 3 ] || fail few: $pids
        oci kill --all nested KILL; until_true 'oci state nested | grep -q stopped'
        for pid in $pids; do [ ! -e /proc/$pid ] || grep -q zombie /proc/$pid/status || fail $pid lives; done")).await?;
    case.delete("nested").await?;
    oom(&mut case).await
}

async fn oom(case: &mut Case) -> Result<()> {
    let resources = json!({"memory": {"limit": 33_554_432, "swap": 33_554_432}});
    let script = "sleep 2; tail -n 1 /dev/zero; echo survived >/survived; while :; do sleep 100; done";
    case.start("hungry", &spec("/berth-case/hungry", &resources, script)).await?;
    case.ok("until_true 'grep -q \"^oom_kill [1-9]\" /sys/fs/cgroup$(unified hungry)/memory.events'").await?;
    let events = case.ok("oci events --stats hungry").await?;
    check!(events.contains("\"memory\""), "{events}");
    case.delete("hungry").await
}

/// An init that moved itself into a group of its own making: exec follows it there, since v2 allows no process beside
/// groups with controllers.
async fn moved(_context: Context) -> Result<()> {
    for systemd in [false, true] {
        let (mut case, path) = match systemd {
            false => (Case::cgroupfs(Mode::Unified).await?, "/berth-case/mover"),
            true => (Case::systemd(Mode::Unified).await?, "berthcase.slice:berth:mover"),
        };
        let script = "mkdir /sys/fs/cgroup/q; echo 1 >/sys/fs/cgroup/q/cgroup.procs; \
            echo '+memory +pids' >/sys/fs/cgroup/cgroup.subtree_control; echo moved >/moved; while :; do sleep 100; done";
        case.start("mover", &spec(path, &json!({}), script)).await?;
        case.ok("until_true '[ -e /root/rootfs/moved ]'; rm /root/rootfs/moved").await?;
        let own = case.ok("unified mover").await?;
        check!(own.ends_with("/q"), "{own}");
        let told = case.ok("oci exec mover cat /proc/self/cgroup").await?;
        check!(told == "0::/q" || told.ends_with("/q"), "exec is in {told}");
        case.ok("oci exec mover true; oci exec --detach mover sleep 1000; oci ps mover").await?;
        case.ok("oci delete --force mover").await?;
        let left = case.ok("find /sys/fs/cgroup -path '*mover*'").await?;
        check!(left.is_empty(), "{left}");
    }
    Ok(())
}
