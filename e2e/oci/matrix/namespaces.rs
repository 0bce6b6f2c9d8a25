//! Namespaces: new, shared with the host, joined by path.

use super::host::{Holder, KINDS, whose};
use super::row::{Row, row};
use anyhow::Result;
use berth_e2e::bundle::{Bundle, push};
use serde_json::{Value, json};

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [fresh(), shared(), joined(), time(), bad()].into_iter().flatten().collect()
}

/// Leaves a namespace out.
fn without(spec: &mut Value, kind: &str) {
    if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
        list.retain(|namespace| namespace["type"] != kind);
    }
}

/// Joins one by its path.
fn by_path(spec: &mut Value, kind: &str, path: &str) {
    without(spec, kind);
    push(&mut spec["linux"]["namespaces"], json!({"type": kind, "path": path}));
}

/// Which of its namespaces are the host's.
const LINKS: &str =
    "for n in mnt pid net ipc uts user cgroup time; do echo $n $(readlink /proc/self/ns/$n); done";

fn table(bundle: &Bundle) -> Result<String> {
    let ran = bundle.run()?;
    if ran.code != 0 {
        return Ok(ran.seen(bundle));
    }
    let lines = ran.out.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(link, text)| format!("{link} {}\n", whose(link, text))).collect())
}

fn fresh() -> Vec<Row> {
    vec![
        row("namespaces: those of the base are new")
            .sh(LINKS)
            .see(table)
            .same(&["mnt own\npid own\nnet own\nipc own\nuts own\nuser host\ncgroup own\ntime host\n"]),
        row("namespaces: the first process is 1").sh("echo $$; set -- /proc/[0-9]*; echo $#").same(&["1\n"]),
        row("namespaces: a new network has its loopback up")
            .sh("ip -o link; cat /proc/net/route | wc -l; ip -o addr | awk '{print $2, $3, $4}'")
            .same(&["127.0.0.1/8"]),
        row("namespaces: new ipc has the defaults")
            .sh("ipcs; cat /proc/sys/fs/mqueue/msg_max")
            .same(&["[exit 0]"]),
        row("namespaces: a new cgroup namespace starts at the container's")
            .args(&["cat", "/proc/self/cgroup"])
            .normal(|bundle, ran| sorted(&ran.seen(bundle)))
            .same(&["0::/\n"]),
    ]
}

/// Lines without the number of a v1 hierarchy, sorted.
fn sorted(text: &str) -> String {
    let bare = text.lines().map(|line| match line.split_once(':') {
        Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) && number != "0" => rest,
        _ => line,
    });
    let mut lines: Vec<&str> = bare.collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn shared() -> Vec<Row> {
    let one = |name: &'static str, kind: &'static str, word: &'static str| {
        let change = move |spec: &mut Value, _: &Bundle| {
            without(spec, kind);
            if kind == "uts" {
                spec["hostname"] = json!("");
            }
        };
        row(name).change(change).sh(LINKS).see(table).same(&[word])
    };
    vec![
        one("namespaces: the host's pid", "pid", "pid host"),
        one("namespaces: the host's network", "network", "net host"),
        one("namespaces: the host's ipc", "ipc", "ipc host"),
        one("namespaces: the host's uts", "uts", "uts host"),
        one("namespaces: the host's cgroup", "cgroup", "cgroup host"),
        row("namespaces: in the host's cgroup namespace its own path is shown")
            .change(|spec, _| without(spec, "cgroup"))
            .args(&["cat", "/proc/self/cgroup"])
            .normal(|bundle, ran| sorted(&ran.seen(bundle)))
            .same(&["0::/<id>\n"]),
        row("namespaces: no mount namespace")
            .change(|spec, _| without(spec, "mount"))
            .refused(&["linux.namespaces", "mount"]),
    ]
}

/// Joins a namespace that another process holds, and says whether it is that one.
fn join(bundle: &Bundle, kind: &str, flags: &[&str], script: &str) -> Result<String> {
    let holder = Holder::new(flags, script)?;
    let link = KINDS.iter().find(|(name, _)| *name == kind).map_or(kind, |(_, link)| link);
    let path = holder.namespace(if kind == "pid" { "pid_for_children" } else { link });
    bundle.change(|spec| {
        by_path(spec, kind, &path);
        if kind == "uts" {
            spec["hostname"] = json!("");
        }
        spec["process"]["args"] = json!(["sh", "-c", format!("readlink /proc/self/ns/{link}; hostname")]);
    })?;
    let ran = bundle.run()?;
    let there = std::fs::read_link(&path)?.display().to_string();
    Ok(ran.seen(bundle).replace(&there, "the one given"))
}

fn joined() -> Vec<Row> {
    let one = |name: &'static str, kind: &'static str, flag: &'static str| {
        row(name).see(move |bundle| join(bundle, kind, &[flag], "")).same(&["the one given\nbundle\n"])
    };
    vec![
        one("namespaces: network by path", "network", "--net"),
        one("namespaces: ipc by path", "ipc", "--ipc"),
        one("namespaces: cgroup by path", "cgroup", "--cgroup"),
        row("namespaces: uts by path")
            .see(|bundle| join(bundle, "uts", &["--uts"], "hostname given"))
            .same(&["the one given\ngiven\n"]),
        row("namespaces: time by path")
            .see(|bundle| join(bundle, "time", &["--time", "--boottime", "700000000"], ""))
            .same(&["the one given"]),
        row("namespaces: a path that is no namespace")
            .change(|spec, bundle| by_path(spec, "network", &bundle.text("config.json")))
            .refused(&["linux.namespaces", "config.json"]),
        row("namespaces: a path of another kind")
            .change(|spec, _| by_path(spec, "network", "/proc/self/ns/uts"))
            .refused(&["linux.namespaces", "/proc/self/ns/uts"]),
        row("namespaces: a path that is missing")
            .change(|spec, _| by_path(spec, "ipc", "/no/such/file"))
            .refused(&["/no/such/file"]),
        row("namespaces: the host's by its path")
            .change(|spec, _| by_path(spec, "network", &format!("/proc/{}/ns/net", std::process::id())))
            .sh(LINKS)
            .see(table)
            .same(&["net host"]),
        row("namespaces: pid by path").see(pid_by_path).same(&["the one given"]),
    ]
}

/// The holder's first child is 1 there, the container's process is another.
fn pid_by_path(bundle: &Bundle) -> Result<String> {
    join(bundle, "pid", &["--pid", "--fork", "--kill-child", "--mount-proc"], "")
        .map(|seen| seen.replace("pid_for_children", "pid"))
}

fn time() -> Vec<Row> {
    let with = |offsets: Value| {
        move |spec: &mut Value, _: &Bundle| {
            push(&mut spec["linux"]["namespaces"], json!({"type": "time"}));
            spec["linux"]["timeOffsets"] = offsets.clone();
        }
    };
    vec![
        row("time: offsets of both clocks")
            .change(with(json!({"boottime": {"secs": 900_000_000, "nanosecs": 0}, "monotonic": {"secs": 5, "nanosecs": 7}})))
            .sh("awk '{print $1, $2, $3}' /proc/self/timens_offsets; awk '{print ($1 > 900000000)}' /proc/uptime")
            .same(&["boottime 900000000 0", "monotonic 5 7", "\n1\n"]),
        row("time: a namespace without offsets")
            .change(|spec, _| push(&mut spec["linux"]["namespaces"], json!({"type": "time"})))
            .sh(LINKS)
            .see(table)
            .same(&["time own"]),
        row("time: offsets that name no clock")
            .change(with(json!({})))
            .args(&["true"])
            .differs("[exit 0]", "timens_offsets: Invalid argument", "no offset is nothing to write"),
        row("time: offsets without a namespace")
            .change(|spec, _| spec["linux"]["timeOffsets"] = json!({"boottime": {"secs": 1}}))
            .refused(&["linux.timeOffsets"]),
        row("time: an offset before the beginning")
            .change(with(json!({"boottime": {"secs": -900_000_000, "nanosecs": 0}})))
            .refused(&["timens_offsets"]),
    ]
}

fn bad() -> Vec<Row> {
    vec![
        row("namespaces: an unknown kind")
            .change(|spec, _| push(&mut spec["linux"]["namespaces"], json!({"type": "net"})))
            .refused(&["linux.namespaces[6]"]),
        row("namespaces: one kind twice")
            .change(|spec, _| push(&mut spec["linux"]["namespaces"], json!({"type": "pid"})))
            .refused(&["linux.namespaces[6]"]),
        row("namespaces: a relative path")
            .change(|spec, _| by_path(spec, "network", "ns/net"))
            .refused(&["linux.namespaces", "path"]),
        row("namespaces: a hostname takes one for it")
            .change(|spec, _| without(spec, "uts"))
            .refused(&["hostname"]),
        row("namespaces: a domain name takes one for it")
            .change(|spec, _| {
                without(spec, "uts");
                spec["hostname"] = json!("");
                spec["domainname"] = json!("d");
            })
            .refused(&["domainname"]),
    ]
}
