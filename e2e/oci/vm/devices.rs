//! The device filter of cgroup v2, tried by opening and making nodes; an update replaces it.

use super::case::{Case, spec};
use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::vm::Mode;
use berth_e2e::{check, tests};
use serde_json::json;

tests![; long [plain]];

/// Says for each device whether it can be made and opened, once for each line in /ask.
const ANSWER: &str = "while :; do if [ -e /ask ]; then rm /ask; {
    mknod /dev/loop c 10 237; echo made-loop $?; dd if=/dev/loop of=/dev/null count=0; echo read-loop $?;
    dd if=/dev/null of=/dev/loop count=0 conv=notrunc; echo write-loop $?;
    mknod /dev/whole c 1 7; dd if=/dev/whole of=/dev/null count=1 bs=1; echo read-full $?;
    mknod /dev/disk b $DISK; dd if=/dev/disk of=/dev/null count=1; echo read-disk $?;
    rm -f /dev/loop /dev/whole /dev/disk; } >/new 2>/dev/null; mv /new /told; fi; usleep 100000; done";

async fn plain(_context: Context) -> Result<()> {
    filtered(Case::cgroupfs(Mode::Unified).await?, "/berth-case/filter").await
}

async fn filtered(mut case: Case, cgroup: &str) -> Result<()> {
    let disk = case.ok("tr : ' ' </sys/block/vda/dev").await?;
    case.ok("modprobe loop").await?;
    let script = ANSWER.replace("$DISK", &disk);
    let rules = json!({"devices": [
        {"allow": false, "access": "rwm"},
        {"allow": true, "type": "c", "major": 10, "minor": 237, "access": "r"},
    ]});
    case.start("filter", &spec(cgroup, &rules, &script)).await?;
    // A node of any device may be made; opening is what the rules decide. /dev/full is of the usual ones.
    let told = ask(&mut case).await?;
    check!(told == "made-loop 0 read-loop 0 write-loop 1 read-full 0 read-disk 1", "at first: {told}");
    check!(programs(&mut case).await? == 1, "not one program");
    let change = json!({"devices": [
        {"allow": false, "access": "rwm"},
        {"allow": true, "type": "b", "access": "rwm"},
        {"allow": false, "type": "c", "major": 10, "minor": 237, "access": "rwm"},
    ]});
    case.ok(&format!("oci update --resources - filter <<'JSON'\n{change}\nJSON")).await?;
    let told = ask(&mut case).await?;
    check!(
        told == "made-loop 0 read-loop 1 write-loop 1 read-full 0 read-disk 0",
        "after the update: {told}"
    );
    check!(programs(&mut case).await? == 1, "the old program is still there");
    // A reload must leave the rules in force, and an update of something else must not open anything.
    case.ok("systemctl daemon-reload; oci update --pids-limit 70 filter").await?;
    let told = ask(&mut case).await?;
    check!(told == "made-loop 0 read-loop 1 write-loop 1 read-full 0 read-disk 0", "after a reload: {told}");
    case.delete("filter").await
}

async fn ask(case: &mut Case) -> Result<String> {
    let told = case.ok("rm -f /root/rootfs/told; touch /root/rootfs/ask; until_true '[ -e /root/rootfs/told ]'; cat /root/rootfs/told").await?;
    Ok(told.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// How many device programs the container's group has by the kernel's own count.
async fn programs(case: &mut Case) -> Result<usize> {
    let told = case.ok("bpftool --json cgroup show /sys/fs/cgroup$(unified filter)").await?;
    Ok(told.matches("\"attach_type\":\"cgroup_device\"").count()
        + told.matches("\"attach_type\":\"device\"").count())
}
