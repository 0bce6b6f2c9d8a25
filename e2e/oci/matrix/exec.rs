//! `exec` with its flags, `update`, `events`.

use super::lifecycle::sleeper;
use super::row::{Row, row};
use anyhow::{Context as _, Result};
use berth_e2e::bundle::Bundle;
use serde_json::{Value, json};
use std::path::Path;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [flags(), more_flags(), files(), cgroups(), update(), more_update(), events()]
        .into_iter()
        .flatten()
        .collect()
}

/// A row about a container that sleeps and runs.
fn up(name: &'static str, see: impl Fn(&Bundle) -> Result<String> + Send + Sync + 'static) -> Row {
    row(name).prepare(sleeper).see(move |bundle| {
        bundle.up()?;
        see(bundle)
    })
}

/// An exec with flags and words.
fn exec(name: &'static str, flags: &'static [&'static str], words: &'static [&'static str]) -> Row {
    up(name, move |bundle| Ok(bundle.call_with("exec", flags, words)?.seen(bundle)))
}

fn flags() -> Vec<Row> {
    let sh = |name: &'static str, flags: &'static [&'static str], script: &'static str| {
        up(name, move |bundle| Ok(bundle.call_with("exec", flags, &["sh", "-c", script])?.seen(bundle)))
    };
    vec![
        exec("exec: output and exit code", &[], &["sh", "-c", "echo out; echo err >&2; exit 9"])
            .same(&["out\nerr\n[exit 9]"]),
        sh("exec: --cwd", &["--cwd", "/tmp"], "pwd").same(&["/tmp\n"]),
        sh("exec: --env", &["--env", "A=5", "--env", "B=6"], "echo $A$B$PATH").same(&["56/usr/sbin"]),
        exec("exec: --env over the container's", &["--env", "PATH=/bin"], &["env"]).same(&["PATH=/bin\n"]),
        sh("exec: --user", &["--user", "7:8"], "id").same(&["uid=7 gid=8"]),
        sh("exec: --user without a group", &["--user", "33"], "id -u; id -g; echo $HOME").same(&["33"]),
        exec("exec: --user that is none", &["--user", "nobody"], &["id"]).refused(&["nobody"]),
        exec("exec: --user 4294967295", &["--user", "4294967295"], &["id"]).refused(&["process.user"]),
        exec("exec: --user 4294967296", &["--user", "4294967296"], &["id"]).differs(
            "4294967296",
            "uid=0(root)",
            "a number that is cut off at 32 bits is root's",
        ),
        exec("exec: --user of two numbers too many", &["--user", "1:2:3"], &["id"]).refused(&["1:2:3"]),
        exec("exec: --user negative", &["--user", "-1"], &["id"]).refused(&["-1"]),
        sh("exec: --additional-gids", &["--additional-gids", "50", "--additional-gids", "60"], "id -G")
            .same(&["50 60"]),
        sh("exec: --cap", &["--cap", "CAP_NET_ADMIN"], "grep CapEff /proc/self/status")
            .same(&["CapEff:\t00000000a80435fb"]),
        exec("exec: --cap unknown", &["--cap", "CAP_NONSENSE"], &["grep", "CapEff", "/proc/self/status"])
            .differs(
                "CAP_NONSENSE",
                "CapEff:\t00000000a80425fb",
                "a name that nobody knows is a slip of the pen",
            ),
        sh("exec: --no-new-privs", &["--no-new-privs"], "grep NoNewPrivs /proc/self/status")
            .same(&["NoNewPrivs:\t1"]),
    ]
}

fn more_flags() -> Vec<Row> {
    vec![
        exec("exec: a missing program", &[], &["/missing"])
            .see(|bundle| {
                bundle.up()?;
                let ran = bundle.call("exec", &["/missing"])?;
                Ok(format!("{} {}", ran.code, ran.error.is_some()))
            })
            .same(&["255 true"]),
        exec("exec: nothing to run", &[], &[])
            .see(|bundle| {
                bundle.up()?;
                Ok(format!("{}", bundle.call("exec", &[])?.code != 0))
            })
            .same(&["true"]),
        up("exec: --detach and --pid-file", |bundle| {
            let ran = bundle.call_with(
                "exec",
                &["--detach", "--pid-file", &bundle.text("pid")],
                &["sleep", "100000"],
            )?;
            let pid: i32 = std::fs::read_to_string(bundle.path("pid"))?.trim().parse()?;
            Ok(format!("{} {}", ran.code, bundle.processes().iter().any(|process| process.pid == pid)))
        })
        .same(&["0 true"]),
        row("exec: before it is started")
            .prepare(sleeper)
            .see(|bundle| {
                bundle.must("create", &[])?;
                Ok(bundle.exec("echo in; set -- /proc/[0-9]*; echo $#")?.seen(bundle))
            })
            .same(&["in\n"]),
    ]
}

/// An exec of a process in a file.
fn process(name: &'static str, value: Value) -> Row {
    up(name, move |bundle| {
        std::fs::write(bundle.path("process.json"), serde_json::to_vec(&value)?)?;
        Ok(bundle.call_with("exec", &["--process", &bundle.text("process.json")], &[])?.seen(bundle))
    })
}

fn files() -> Vec<Row> {
    let plain = |args: Value| json!({"user": {"uid": 5, "gid": 6}, "args": args, "env": ["A=1", "PATH=/bin"], "cwd": "/tmp"});
    let with = move |key: &str, value: Value| {
        let mut process = plain(json!(["id"]));
        process[key] = value;
        process
    };
    vec![
        process("exec: --process", plain(json!(["sh", "-c", "id -u; pwd; env | sort"])))
            .same(&["5\n/tmp\nA=1\n"]),
        process("exec: --process without arguments", with("args", json!([]))).refused(&["process.args"]),
        process("exec: --process with a bad entry", with("env", json!(["X"]))).refused(&["process.env[0]"]),
        process("exec: --process with a relative directory", with("cwd", json!("tmp")))
            .refused(&["process.cwd"]),
        process("exec: --process with a text for a number", with("user", json!({"uid": "root"})))
            .refused(&["user.uid"]),
        process("exec: --process that is a list", json!([])).refused(&["process.json"]),
        up("exec: --process that is missing", |bundle| {
            Ok(bundle.call_with("exec", &["--process", "/no/such.json"], &[])?.seen(bundle))
        })
        .refused(&["/no/such.json"]),
    ]
}

/// Makes a group below another; nobody can be in one of cpuset before it has CPUs and memory.
fn sub(dir: &Path) -> Result<()> {
    std::fs::create_dir(dir.join("sub"))?;
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if dir.join(file).exists() && !dir.join("cgroup.controllers").exists() {
            std::fs::write(dir.join("sub").join(file), std::fs::read(dir.join(file))?)?;
        }
    }
    Ok(())
}

fn cgroups() -> Vec<Row> {
    let inside = |controllers: &'static str| {
        move |bundle: &Bundle| {
            bundle.cgroups("").iter().try_for_each(|dir| sub(dir))?;
            let place = if controllers.is_empty() { "sub".to_owned() } else { format!("{controllers}:sub") };
            let ran = bundle.call_with("exec", &["--cgroup", &place], &["cat", "/proc/self/cgroup"])?;
            let mut lines: Vec<&str> =
                ran.out.lines().filter_map(|line| line.split_once(':').map(|(_, rest)| rest)).collect();
            lines.sort_unstable();
            Ok(format!("{}\n[exit {}]", bundle.plain(&lines.join("\n")), ran.code))
        }
    };
    vec![
        up("exec: it is in the container's cgroup", |bundle| {
            let ran = bundle.call("exec", &["cat", "/proc/self/cgroup"])?;
            let mut lines: Vec<&str> =
                ran.out.lines().filter_map(|line| line.split_once(':').map(|(_, rest)| rest)).collect();
            lines.sort_unstable();
            Ok(lines.join("\n"))
        })
        .same(&[":/"]),
        up("exec: --cgroup in every hierarchy", inside("")).same(&[":/sub\n", "[exit 0]"]),
        up("exec: --cgroup of one controller", inside("pids")).needs("v1").same(&["pids:/sub", "memory:/\n"]),
        up("exec: --cgroup that is missing", |bundle| {
            Ok(bundle.call_with("exec", &["--cgroup", "nowhere"], &["true"])?.seen(bundle))
        })
        .refused(&["nowhere"]),
        up("exec: --cgroup that leads out", |bundle| {
            Ok(bundle.call_with("exec", &["--cgroup", "../.."], &["true"])?.seen(bundle))
        })
        .refused(&["--cgroup"]),
        up("exec: --cgroup of a controller that is none", |bundle| {
            Ok(bundle.call_with("exec", &["--cgroup", "nonsense:sub"], &["true"])?.seen(bundle))
        })
        .needs("v1")
        .refused(&["nonsense"]),
    ]
}

/// An update with flags, then files of the cgroup.
fn updated(name: &'static str, flags: &'static [&'static str], files: &'static [&'static str]) -> Row {
    up(name, move |bundle| {
        let ran = bundle.call_with("update", flags, &[])?;
        let text = bundle.cgroup_file(files).unwrap_or_default();
        Ok(format!("{text} {}", ran.seen(bundle)))
    })
}

fn update() -> Vec<Row> {
    vec![
        updated(
            "update: --memory",
            &["--memory", "64m", "--memory-swap", "-1"],
            &["memory.limit_in_bytes", "memory.max"],
        )
        .needs("memory")
        .same(&["67108864 [exit 0]"]),
        updated("update: --pids-limit", &["--pids-limit", "31"], &["pids.max"])
            .needs("pids")
            .same(&["31 [exit 0]"]),
        updated(
            "update: --cpu-quota and --cpu-period",
            &["--cpu-quota", "20000", "--cpu-period", "50000"],
            &["cpu.cfs_quota_us", "cpu.max"],
        )
        .needs("cpu")
        .same(&["20000", "[exit 0]"]),
        updated("update: --cpu-share", &["--cpu-share", "99"], &["cpu.shares"])
            .needs("v1")
            .needs("cpu")
            .same(&["99 [exit 0]"]),
        updated("update: --cpuset-cpus", &["--cpuset-cpus", "0"], &["cpuset.cpus"])
            .needs("cpuset")
            .same(&["0 [exit 0]"]),
        updated("update: a number that is none", &["--memory", "lots"], &["cgroup.procs"])
            .see(|bundle| {
                bundle.up()?;
                Ok(bundle.call_with("update", &["--memory", "lots"], &[])?.seen(bundle))
            })
            .refused(&["lots"]),
    ]
}

fn more_update() -> Vec<Row> {
    vec![
        up("update: --resources", |bundle| {
            std::fs::write(bundle.path("r.json"), r#"{"pids": {"limit": 44}}"#)?;
            let ran = bundle.call_with("update", &["--resources", &bundle.text("r.json")], &[])?;
            Ok(format!("{} {}", bundle.cgroup_file(&["pids.max"])?, ran.code))
        })
        .needs("pids")
        .same(&["44 0"]),
        up("update: --resources of a wrong kind", |bundle| {
            std::fs::write(bundle.path("r.json"), r#"{"pids": {"limit": "x"}}"#)?;
            Ok(bundle.call_with("update", &["--resources", &bundle.text("r.json")], &[])?.seen(bundle))
        })
        .refused(&["pids.limit"]),
    ]
}

fn events() -> Vec<Row> {
    vec![
        up("events: --stats", |bundle| {
            let ran = bundle.call_with("events", &["--stats"], &[])?;
            let event: Value = serde_json::from_str(ran.out.lines().next().context("no line")?)?;
            let data = &event["data"];
            let shape = json!([
                event["type"],
                bundle.plain(event["id"].as_str().unwrap_or_default()),
                data["pids"]["limit"],
                data["pids"]["current"],
                data["cpu"]["usage"]["total"].is_u64(),
                data["memory"]["usage"]["usage"].is_u64()
            ]);
            Ok(shape.to_string())
        })
        .change(|spec, _| spec["linux"]["resources"]["pids"] = json!({"limit": 50}))
        .needs("pids")
        .needs("memory")
        .same(&["[\"stats\",\"<id>\",50,1,true,true]"]),
    ]
}
