//! Limits on cgroup v2 with all its controllers, by both drivers: in the files, kept over an update, refused whole.

use super::case::{Case, spec};
use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::vm::Mode;
use berth_e2e::{check, tests};
use serde_json::{Value, json};

tests![; long [files, scopes, refusals]];

const SLEEP: &str = "while :; do sleep 100; done";

/// Everything that a specification can limit on v2.
fn everything() -> Value {
    json!({
        "memory": {"limit": 67_108_864, "swap": 100_663_296, "reservation": 16_777_216},
        "cpu": {"shares": 512, "quota": 20_000, "period": 50_000, "burst": 10_000, "cpus": "0", "mems": "0"},
        "pids": {"limit": 50},
        "blockIO": {"weight": 500},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 4_194_304}],
        "unified": {"memory.high": "33554432", "memory.min": "8388608", "memory.oom.group": "1"},
    })
}

/// What the files then say. 512 shares: the kernel's present curve gives 59, the kubelet's as well.
const SET: [(&str, &str); 14] = [
    ("memory.max", "67108864"),
    ("memory.swap.max", "33554432"),
    ("memory.low", "16777216"),
    ("memory.high", "33554432"),
    ("memory.min", "8388608"),
    ("memory.oom.group", "1"),
    ("cpu.weight", "59"),
    ("cpu.max", "20000 50000"),
    ("cpu.max.burst", "10000"),
    ("cpuset.cpus", "0"),
    ("cpuset.mems", "0"),
    ("pids.max", "50"),
    ("io.weight", "default 4950"),
    ("hugetlb.2MB.max", "4194304"),
];

async fn files(_context: Context) -> Result<()> {
    let mut case = Case::cgroupfs(Mode::Unified).await?;
    case.start("plain", &spec("/berth-case/plain", &everything(), SLEEP)).await?;
    case.files("plain", &SET).await?;
    changed(&mut case, "plain").await?;
    throttled(&mut case).await?;
    idle(&mut case, "/berth-case/idle").await?;
    case.delete("plain").await
}

/// The same, and systemd knows the same: a reload changes nothing.
async fn scopes(_context: Context) -> Result<()> {
    let mut case = Case::systemd(Mode::Unified).await?;
    case.start("scoped", &spec("berthcase.slice:berth:scoped", &everything(), SLEEP)).await?;
    let told = case.ok("unified scoped").await?;
    check!(told == "/berthcase.slice/berth-scoped.scope", "{told}");
    case.files("scoped", &SET).await?;
    let properties = [
        ("MemoryMax", "67108864"),
        ("MemorySwapMax", "33554432"),
        ("MemoryLow", "16777216"),
        ("MemoryHigh", "33554432"),
        ("MemoryMin", "8388608"),
        ("CPUWeight", "59"),
        ("CPUQuotaPerSecUSec", "400ms"),
        ("CPUQuotaPeriodUSec", "50ms"),
        ("AllowedCPUs", "0"),
        ("AllowedMemoryNodes", "0"),
        ("TasksMax", "50"),
        ("IOWeight", "4950"),
        ("CollectMode", "inactive-or-failed"),
        ("Delegate", "yes"),
        ("TasksAccounting", "yes"),
        ("Slice", "berthcase.slice"),
    ];
    case.properties("berth-scoped.scope", &properties).await?;
    case.ok("systemctl daemon-reload").await?;
    // Before systemd 253 a scope cannot say so, and the reload resets it.
    let kept: Vec<_> = SET.into_iter().filter(|(file, _)| *file != "memory.oom.group").collect();
    case.files("scoped", &kept).await?;
    idle(&mut case, "berthcase.slice:berth:idle").await?;
    changed(&mut case, "scoped").await?;
    let properties =
        [("MemoryMax", "134217728"), ("CPUWeight", "100"), ("TasksMax", "60"), ("AllowedCPUs", "0-1")];
    case.properties("berth-scoped.scope", &properties).await?;
    in_step(&mut case, "berth-scoped.scope").await?;
    case.delete("scoped").await?;
    case.properties("berth-scoped.scope", &[("LoadState", "not-found")]).await
}

/// An update, in the files also after a reload; one that cannot be carried out whole leaves all as it was.
async fn changed(case: &mut Case, name: &str) -> Result<()> {
    let change = json!({
        "memory": {"limit": 134_217_728, "swap": 134_217_728}, "cpu": {"shares": 1024, "cpus": "0-1", "quota": 30_000},
        "pids": {"limit": 60}, "unified": {"memory.high": "max"},
    });
    let update = |change: &Value| format!("oci update --resources - {name} <<'JSON'\n{change}\nJSON");
    case.ok(&update(&change)).await?;
    let wanted = [
        ("memory.max", "134217728"),
        ("memory.swap.max", "0"),
        ("memory.low", "16777216"),
        ("memory.high", "max"),
        ("cpu.weight", "100"),
        ("cpu.max", "30000 50000"),
        ("cpuset.cpus", "0-1"),
        ("pids.max", "60"),
        ("io.weight", "default 4950"),
    ];
    case.files(name, &wanted).await?;
    case.ok("systemctl daemon-reload").await?;
    case.files(name, &wanted).await?;
    // One part of the bandwidth after the other, and a share that is no whole percent.
    case.ok(&format!("oci update --cpu-quota 12345 {name}")).await?;
    case.files(name, &[("cpu.max", "12345 50000")]).await?;
    case.ok(&format!("oci update --cpu-period 100000 {name}")).await?;
    case.files(name, &[("cpu.max", "12345 100000"), ("cpu.weight", "100")]).await?;
    case.ok(&format!("oci update --cpu-period 50000 --cpu-quota 30000 {name}")).await?;
    let bad = json!({"memory": {"limit": 150_994_944}, "cpu": {"cpus": "4000"}});
    let output = case.run(&update(&bad)).await?;
    check!(output.code != 0, "processor 4000 was accepted");
    case.files(name, &wanted).await
}

/// What an update does not name is part of the property too; systemd, which knows whole percents only, has at least as
/// much as was asked for, and never what was before.
async fn in_step(case: &mut Case, unit: &str) -> Result<()> {
    case.ok("oci update --cpu-quota 12345 scoped").await?;
    let rounded =
        [("CPUQuotaPerSecUSec", "250ms"), ("CPUQuotaPeriodUSec", "50ms"), ("MemoryMax", "134217728")];
    case.properties(unit, &rounded).await?;
    case.ok("systemctl daemon-reload").await?;
    case.files("scoped", &[("cpu.max", "12500 50000"), ("cpu.weight", "100")]).await?;
    case.ok("oci update --resources - scoped <<<'{\"cpu\": {\"idle\": 1}}'").await?;
    case.ok("oci update --resources - scoped <<<'{\"cpu\": {\"idle\": 0}}'; systemctl daemon-reload").await?;
    case.files("scoped", &[("cpu.idle", "0"), ("cpu.weight", "100"), ("cpu.max", "12500 50000")]).await
}

/// Rates of a device, which the guest's own disk is.
async fn throttled(case: &mut Case) -> Result<()> {
    let device = case.ok("cat /sys/block/vda/dev").await?;
    let (major, minor) = device.split_once(':').unwrap_or_default();
    let (major, minor): (u32, u32) = (major.parse()?, minor.parse()?);
    let rate = |rate: u64| json!([{"major": major, "minor": minor, "rate": rate}]);
    let resources =
        json!({"blockIO": {"throttleReadBpsDevice": rate(1_048_576), "throttleWriteIOPSDevice": rate(30)}});
    case.start("throttled", &spec("/berth-case/throttled", &resources, SLEEP)).await?;
    let wanted = format!("{device} rbps=1048576 wbps=max riops=max wiops=30");
    case.files("throttled", &[("io.max", &wanted)]).await?;
    case.delete("throttled").await
}

/// A container that only runs when nobody else does; its shares then mean nothing, and a reload wakes it not.
async fn idle(case: &mut Case, cgroup: &str) -> Result<()> {
    let resources = json!({"cpu": {"idle": 1, "shares": 512}});
    case.start("idle", &spec(cgroup, &resources, SLEEP)).await?;
    case.files("idle", &[("cpu.idle", "1")]).await?;
    case.ok("systemctl daemon-reload").await?;
    case.files("idle", &[("cpu.idle", "1")]).await?;
    case.delete("idle").await
}

/// Each driver refuses the other's path form, says which side is set wrongly, and never makes the literal directory;
/// limits that make no sense are named.
async fn refusals(_context: Context) -> Result<()> {
    let mut case = Case::cgroupfs(Mode::Unified).await?;
    let form = case.refused("form", &spec("berthcase.slice:berth:form", &json!({}), SLEEP)).await?;
    check!(form.contains("systemd") && form.contains("cgroupfs"), "{form}");
    for (resources, word) in [
        (json!({"memory": {"limit": 1000, "swap": 500}}), "swap"),
        (json!({"cpu": {"idle": 2}}), "idle"),
        (json!({"cpu": {"cpus": "77"}}), "cpuset.cpus"),
        (json!({"unified": {"memory.max": "many"}}), "memory.max"),
        (json!({"unified": {"cgroup.procs": "1"}}), "cgroup.procs"),
        (json!({"unified": {"memory.nothing": "1"}}), "memory.nothing"),
        (json!({"hugepageLimits": [{"pageSize": "3MB", "limit": 1}]}), "3MB"),
        (json!({"cpu": {"realtimeRuntime": 5}}), "realtime"),
    ] {
        let text = case.refused("bad", &spec("/berth-case/bad", &resources, SLEEP)).await?;
        check!(text.contains(word), "{word} is not in {text}");
    }
    drop(case);
    let mut case = Case::systemd(Mode::Unified).await?;
    let form = case.refused("form", &spec("/berth-case/form", &json!({}), SLEEP)).await?;
    check!(form.contains("systemd") && form.contains("cgroupfs"), "{form}");
    for bad in ["a/b.slice:berth:x", "x.slice:berth:../y", "plain:berth:x", "x.slice:berth:"] {
        case.refused("bad", &spec(bad, &json!({}), SLEEP)).await?;
    }
    let literal = case
        .ok("find /sys/fs/cgroup -name '*:*' -o -name berth-case -o -name 'form*' -o -name '*-bad*'")
        .await?;
    check!(literal.is_empty(), "{literal}");
    Ok(())
}
