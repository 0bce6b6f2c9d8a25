//! Limits as files of the container's cgroup show them, its place, and the view from inside.

use super::row::{Row, row};
use anyhow::Result;
use berth_e2e::bundle::{Bundle, push};
use serde_json::{Value, json};

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [memory(), cpu(), others(), more_others(), unified(), places(), more_places(), view(), more_view(), bad()]
        .into_iter()
        .flatten()
        .collect()
}

fn resources(key: &'static str, value: Value) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, _| spec["linux"]["resources"][key] = value.clone()
}

/// Creates the container and reads files of its cgroup; those that no hierarchy has are left out.
fn files(names: &'static [&'static str]) -> impl Fn(&Bundle) -> Result<String> + Send + Sync + 'static {
    move |bundle| {
        let created = bundle.call("create", &[])?;
        if created.code != 0 {
            return Ok(created.seen(bundle));
        }
        let text =
            names.iter().filter_map(|name| Some(format!("{name}: {}\n", bundle.cgroup_file(&[name]).ok()?)));
        Ok(text.collect())
    }
}

const MEMORY: &[&str] = &[
    "memory.limit_in_bytes",
    "memory.soft_limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.swappiness",
    "memory.oom_control",
    "memory.max",
    "memory.low",
    "memory.high",
    "memory.swap.max",
];

fn memory() -> Vec<Row> {
    let one = |name: &'static str, value: Value| {
        row(name).needs("memory").change(resources("memory", value)).see(files(MEMORY))
    };
    vec![
        one("memory: a limit", json!({"limit": 67_108_864})).same(&["67108864"]),
        one("memory: a reservation", json!({"limit": 67_108_864, "reservation": 33_554_432}))
            .same(&["33554432"]),
        one("memory: with swap", json!({"limit": 67_108_864, "swap": 134_217_728})).same(&["67108864"]),
        one("memory: without swap", json!({"limit": 67_108_864, "swap": 67_108_864})).same(&["67108864"]),
        one("memory: unlimited", json!({"limit": -1, "swap": -1})).same(&["memory"]),
        one("memory: swappiness", json!({"swappiness": 10})).needs("v1").same(&["memory.swappiness: 10"]),
        one("memory: the killer is on", json!({"limit": 67_108_864}))
            .needs("v1")
            .same(&["oom_kill_disable 0"]),
        one("memory: the killer is off when asked", json!({"limit": 67_108_864, "disableOOMKiller": true}))
            .needs("v1")
            .same(&["oom_kill_disable 1"]),
        one("memory: swap below the limit", json!({"limit": 67_108_864, "swap": 33_554_432}))
            .refused(&["swap"]),
        row("memory: too much is killed")
            .needs("memory")
            .change(resources("memory", json!({"limit": 16_777_216, "swap": 16_777_216})))
            .sh("head -c 200000000 /dev/zero | tail -n 1 | wc -c; echo ended ${PIPESTATUS:-}")
            .normal(|bundle, ran| ran.seen(bundle).replace("Killed\n", ""))
            .same(&["0\nended"]),
    ]
}

const CPU: &[&str] = &[
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.idle",
    "cpu.weight",
    "cpu.max",
    "cpu.max.burst",
    "cpuset.cpus",
    "cpuset.mems",
];

fn cpu() -> Vec<Row> {
    let one = |name: &'static str, value: Value| {
        row(name).needs("cpu").change(resources("cpu", value)).see(files(CPU))
    };
    vec![
        one("cpu: shares", json!({"shares": 512})).needs("v1").same(&["cpu.shares: 512"]),
        one("cpu: few shares", json!({"shares": 2})).same(&["cpu"]),
        one("cpu: many shares", json!({"shares": 262_144})).same(&["cpu"]),
        one("cpu: quota and period", json!({"quota": 50_000, "period": 100_000})).same(&["50000"]),
        one("cpu: quota alone", json!({"quota": 50_000})).same(&["50000"]),
        one("cpu: period alone", json!({"period": 50_000})).same(&["50000"]),
        one("cpu: no quota", json!({"quota": -1})).same(&["cpu"]),
        one("cpu: burst", json!({"quota": 50_000, "period": 100_000, "burst": 20_000})).same(&["20000"]),
        one("cpu: idle", json!({"idle": 1})).same(&["cpu.idle: 1"]),
        one("cpu: a set of CPUs", json!({"cpus": "0", "mems": "0"}))
            .needs("cpuset")
            .same(&["cpuset.cpus: 0"]),
        one("cpu: a quota that is too small", json!({"quota": 1, "period": 100_000})).refused(&["cpu"]),
        one("cpu: a set that is none", json!({"cpus": "x"})).needs("cpuset").refused(&["cpus"]),
        one("cpu: a set beyond the machine's", json!({"cpus": "900"})).needs("cpuset").refused(&["cpus"]),
        row("cpu: the program sees its set")
            .needs("cpuset")
            .change(resources("cpu", json!({"cpus": "0"})))
            .sh("grep Cpus_allowed_list /proc/self/status; nproc")
            .same(&["Cpus_allowed_list:\t0\n1\n"]),
    ]
}

fn others() -> Vec<Row> {
    vec![
        row("pids: a limit")
            .needs("pids")
            .change(resources("pids", json!({"limit": 20})))
            .see(files(&["pids.max"]))
            .same(&["20"]),
        row("pids: none")
            .needs("pids")
            .change(resources("pids", json!({"limit": -1})))
            .see(files(&["pids.max"]))
            .same(&["max"]),
        row("pids: zero")
            .needs("pids")
            .change(resources("pids", json!({"limit": 0})))
            .see(files(&["pids.max"]))
            .differs("pids.max: max", "pids.max: 1", "callers have always written 0 for none"),
        row("pids: felt")
            .needs("pids")
            .change(resources("pids", json!({"limit": 3})))
            .sh("sleep 100 & sleep 100 & sleep 100 & wait")
            .same(&["can't fork"]),
        row("block I/O: throttled")
            .needs("blkio")
            .change(|spec, _| {
                let (major, minor) = disk();
                let rate = json!([{"major": major, "minor": minor, "rate": 1_048_576}]);
                spec["linux"]["resources"]["blockIO"] =
                    json!({"throttleReadBpsDevice": rate, "throttleWriteIOPSDevice": rate});
            })
            .see(files(&["blkio.throttle.read_bps_device", "blkio.throttle.write_iops_device"]))
            .same(&["1048576"]),
    ]
}

fn more_others() -> Vec<Row> {
    vec![
        row("block I/O: throttled, v2")
            .needs("io")
            .change(|spec, _| {
                let (major, minor) = disk();
                let rate = json!([{"major": major, "minor": minor, "rate": 1_048_576}]);
                spec["linux"]["resources"]["blockIO"] =
                    json!({"throttleReadBpsDevice": rate, "throttleWriteIOPSDevice": rate});
            })
            .see(files(&["io.max"]))
            .same(&["rbps=1048576"]),
        row("huge pages: a limit")
            .needs("v2")
            .needs("hugetlb")
            .change(resources("hugepageLimits", json!([{"pageSize": "2MB", "limit": 4_194_304}])))
            .see(files(&["hugetlb.2MB.max", "hugetlb.2MB.limit_in_bytes"]))
            .same(&["4194304"]),
        row("huge pages: a size that is none")
            .change(resources("hugepageLimits", json!([{"pageSize": "3MB", "limit": 4_194_304}])))
            .refused(&["3MB"]),
        row("rdma: where there is none")
            .needs("no-rdma")
            .change(resources("rdma", json!({"mlx5_1": {"hcaHandles": 3}})))
            .see(files(&["rdma.max"]))
            .same(&[]),
        row("rdt: where there is none")
            .needs("no-resctrl")
            .change(|spec, _| spec["linux"]["intelRdt"] = json!({"closID": "x", "l3CacheSchema": "L3:0=f"}))
            .refused(&["linux.intelRdt"]),
    ]
}

/// The numbers of a whole disk of the machine.
fn disk() -> (u64, u64) {
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut numbers = disks.filter_map(|disk| {
        let name = disk.file_name().into_string().ok()?;
        let text = std::fs::read_to_string(disk.path().join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        name.starts_with(['v', 's', 'n']).then_some((major.parse().ok()?, minor.parse().ok()?))
    });
    numbers.next().unwrap_or((7, 0))
}

fn unified() -> Vec<Row> {
    let with = |value: Value| resources("unified", value);
    vec![
        row("unified: on v1")
            .needs("v1")
            .change(with(json!({"memory.high": "1000000"})))
            .refused(&["unified"]),
        row("unified: a file")
            .needs("v2")
            .needs("hugetlb")
            .change(with(json!({"hugetlb.2MB.max": "4194304"})))
            .see(files(&["hugetlb.2MB.max"]))
            .same(&["4194304"]),
        row("unified: memory")
            .needs("v2")
            .needs("memory")
            .change(with(json!({"memory.high": "1048576000"})))
            .see(files(&["memory.high"]))
            .same(&["1048576000"]),
        row("unified: a file that is not there")
            .needs("v2")
            .change(with(json!({"cgroup.nonsense": "1"})))
            .refused(&["cgroup.nonsense"]),
        row("unified: a name with slashes")
            .needs("v2")
            .change(with(json!({"../cgroup.procs": "1"})))
            .refused(&["unified"]),
        row("unified: a controller that is not there")
            .needs("v2")
            .change(with(json!({"nonsense.max": "1"})))
            .refused(&["nonsense"]),
    ]
}

fn places() -> Vec<Row> {
    vec![
        row("cgroup: joined in every hierarchy")
            .see(|bundle| {
                bundle.must("create", &[])?;
                let table = std::fs::read_to_string(format!("/proc/{}/cgroup", bundle.pid()?))?;
                let mut lines: Vec<&str> =
                    table.lines().filter_map(|line| line.split_once(':').map(|(_, rest)| rest)).collect();
                lines.sort_unstable();
                Ok(bundle.plain(&lines.join("\n")))
            })
            .same(&[":/<id>"]),
        row("cgroup: a path with two parts")
            .change(|spec, bundle| spec["linux"]["cgroupsPath"] = json!(format!("/{}/part", bundle.id())))
            .see(|bundle| {
                bundle.must("create", &[])?;
                let there = bundle.cgroups("part").len() == bundle.cgroups("").len();
                bundle.call_with("delete", &["--force"], &[])?;
                let left = bundle.cgroups("part").len();
                // What stands above belongs to whoever named it.
                bundle.cgroups("").iter().for_each(|dir| berth_e2e::node::remove_cgroup(dir));
                Ok(format!("{there} {left}"))
            })
            .same(&["true 0"]),
        row("cgroup: none given takes the id")
            .change(|spec, _| drop(spec["linux"].as_object_mut().and_then(|map| map.remove("cgroupsPath"))))
            .see(|bundle| {
                bundle.must("create", &[])?;
                Ok(format!("{}", !bundle.cgroups("").is_empty()))
            })
            .same(&["true"]),
    ]
}

fn more_places() -> Vec<Row> {
    let path =
        |path: &'static str| move |spec: &mut Value, _: &Bundle| spec["linux"]["cgroupsPath"] = json!(path);
    vec![
        row("cgroup: systemd's form without systemd")
            .change(path("system.slice:berth:x"))
            .args(&["true"])
            .differs("linux.cgroupsPath", "[", "a directory of that name must never come to exist"),
        row("cgroup: a path that leads up").change(path("/../../berth-e2e-up")).args(&["true"]).differs(
            "linux.cgroupsPath",
            "[exit 0]",
            "nobody who means well writes two dots",
        ),
        row("cgroup: a path with a NUL").change(path("/a\0b")).refused(&["linux.cgroupsPath"]),
    ]
}

fn view() -> Vec<Row> {
    let mount = |options: &'static [&'static str]| {
        move |spec: &mut Value, _: &Bundle| spec["mounts"][6]["options"] = json!(options)
    };
    let without = |spec: &mut Value, _: &Bundle| {
        if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
            list.retain(|namespace| namespace["type"] != "cgroup");
        }
    };
    vec![
        row("cgroup mount: v1, the own group is its root")
            .needs("v1")
            .sh("ls /sys/fs/cgroup | sort | tr '\\n' ' '; cat /sys/fs/cgroup/pids/cgroup.procs | head -1; touch /sys/fs/cgroup/pids/x")
            .normal(|bundle, ran| ran.seen(bundle).replace("unified ", ""))
            .same(&["systemd", "1\n", "Read-only"]),
        row("cgroup mount: v1, without a namespace of its own")
            .needs("v1")
            .change(without)
            .sh("head -1 /sys/fs/cgroup/pids/cgroup.procs; mkdir /sys/fs/cgroup/pids/x")
            .same(&["1\n", "Read-only"]),
        row("cgroup mount: v1, writable")
            .needs("v1")
            .change(mount(&["rw", "nosuid", "noexec", "nodev"]))
            .sh("mkdir /sys/fs/cgroup/pids/x && rmdir /sys/fs/cgroup/pids/x && echo writes")
            .same(&["writes"]),
        row("cgroup mount: v2, the own group is its root")
            .needs("v2")
            .sh("head -1 /sys/fs/cgroup/cgroup.procs; cat /sys/fs/cgroup/cgroup.type; mkdir /sys/fs/cgroup/x")
            .same(&["1\ndomain", "Read-only"]),
        row("cgroup mount: v2, without a namespace of its own")
            .needs("v2")
            .change(without)
            .sh("head -1 /sys/fs/cgroup/cgroup.procs; mkdir /sys/fs/cgroup/x")
            .differs("1\n", "0\n", "the whole tree of the host is nobody's business"),
    ]
}

fn more_view() -> Vec<Row> {
    let mount = |options: &'static [&'static str]| {
        move |spec: &mut Value, _: &Bundle| spec["mounts"][6]["options"] = json!(options)
    };
    vec![
        row("cgroup mount: v2, writable")
            .needs("v2")
            .change(mount(&["rw", "nosuid", "noexec", "nodev"]))
            .sh("mkdir /sys/fs/cgroup/x && rmdir /sys/fs/cgroup/x && echo writes")
            .same(&["writes"]),
        row("cgroup: groups that the container made go with it")
            .change(mount(&["rw", "nosuid", "noexec", "nodev"]))
            .sh("for d in /sys/fs/cgroup /sys/fs/cgroup/pids; do [ -e $d/cgroup.procs ] && mkdir -p $d/a/b/c; done; echo made")
            .same(&["made"]),
    ]
}

fn bad() -> Vec<Row> {
    vec![
        row("resources: a text for a number")
            .change(resources("memory", json!({"limit": "64m"})))
            .refused(&["linux.resources.memory.limit"]),
        row("resources: a fraction")
            .change(resources("pids", json!({"limit": 1.5})))
            .refused(&["linux.resources.pids.limit"]),
        row("resources: larger than 64 bits")
            .change(|spec, _| {
                spec["linux"]["resources"]["memory"] =
                    serde_json::from_str("{\"limit\": 99999999999999999999}").unwrap_or_default()
            })
            .refused(&["linux.resources.memory.limit"]),
        row("resources: negative shares")
            .change(resources("cpu", json!({"shares": -5})))
            .refused(&["linux.resources.cpu.shares"]),
        row("resources: a device rule that is none")
            .change(|spec, _| push(&mut spec["linux"]["resources"]["devices"], json!("c 1:3 rwm")))
            .refused(&["linux.resources.devices[1]"]),
    ]
}
