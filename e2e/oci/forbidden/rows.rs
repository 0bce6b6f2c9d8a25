//! The rows of the table, and the commands of one life, without the filter and behind it.

use crate::matrix::judge::{Shown, chosen, show};
use crate::matrix::row::{Row, row};
use anyhow::{Result, bail};
use berth_e2e::bundle::{Bundle, Ran, Runtime, mount, push};
use berth_e2e::check;
use berth_e2e::filter::Filter;
use serde_json::json;
use std::fmt::Write as _;

/// What cannot be the same: the row, and what is shown or complained about behind the filter.
const OTHERWISE: &[(&str, &str)] = &[
    // There is no other way, and the call that it takes is named.
    ("rbind: rro reaches everything", "mount_setattr"),
    ("rbind: rnosuid", "mount_setattr"),
    ("rbind: rnodev and rnoexec", "mount_setattr"),
    ("rbind: rnosymfollow", "mount_setattr"),
    ("rbind: rsuid takes back", "mount_setattr"),
    ("bind: rnoatime", "mount_setattr"),
    ("bind: rstrictatime", "mount_setattr"),
    ("propagation: shared", "open_tree"),
    ("propagation: rshared", "open_tree"),
    ("propagation: two kinds in turn", "open_tree"),
    ("idmap: by the container's own mapping", "open_tree"),
    ("idmap: recursive", "open_tree"),
    ("idmap: mappings of its own, no user namespace", "open_tree"),
    ("idmap: mappings of its own imply it", "open_tree"),
    ("idmap: mappings of its own inside a user namespace", "open_tree"),
    // By mount(2) only the mount at the path itself becomes read-only, as ever with runc.
    ("read-only: a folder with a mount of its own below", "/mnt/in tmpfs rw"),
    // The filter around the runtime counts.
    ("seccomp: the default profile", "Seccomp_filters:"),
];

/// Runs rows without a filter and behind each; every failure is told.
pub(super) fn all(rows: &[Row], filters: &[Filter]) -> Result<()> {
    let (mut ran, mut wrong, mut story) = (0, 0, String::new());
    for row in chosen(rows) {
        ran += 1;
        if let Err(error) = same(row, filters) {
            wrong += 1;
            writeln!(story, "row {}: {error:#}", row.name)?;
        }
    }
    check!(wrong == 0, "{wrong} of {ran} rows are not as without a filter\n{story}");
    Ok(())
}

fn same(row: &Row, filters: &[Filter]) -> Result<()> {
    let told = |shown: &Shown| format!("{}\n    {}", shown.seen, shown.complaint);
    let free = show(row, Runtime::Berth, None)?;
    for filter in filters {
        let behind = show(row, Runtime::Berth, Some(filter.clone()))?;
        match OTHERWISE.iter().find(|(name, _)| *name == row.name) {
            Some((_, word)) if free.seen != behind.seen && told(&behind).contains(word) => {}
            None if free.seen == behind.seen => {}
            _ => bail!("{filter}: {}\n  without it: {}", told(&behind), told(&free)),
        }
    }
    Ok(())
}

/// Runs the commands of one life behind each filter.
pub(super) fn lives(filters: &[Filter]) -> Result<()> {
    let row = row("every command").prepare(container).see(life);
    let free = show(&row, Runtime::Berth, None)?.seen;
    for filter in filters {
        is_felt(filter)?;
        let behind = show(&row, Runtime::Berth, Some(filter.clone()))?.seen;
        check!(free == behind, "{filter}:\n{behind}\nwithout it:\n{free}");
    }
    Ok(())
}

/// What the container shows of itself: its mounts without their numbers, its masks and its working directory.
const SHOW: &str = "cut -d' ' -f4- /proc/self/mountinfo | sed 's/ master:[0-9]*//; s/ shared:[0-9]*//'; stat -c '%n %t:%T %a' /dev/* \
    /proc/keys /proc/kcore; pwd; cat /v/file; cat /proc/self/cgroup; ls /proc/self/fd | wc -l";

/// The runtime itself says which calls it has to do without.
pub(super) fn is_felt(filter: &Filter) -> Result<()> {
    let mut bundle = Bundle::new(Runtime::Berth)?;
    bundle.behind(Some(filter.clone()));
    let said = bundle.step(&["features"])?.run()?.out;
    let silent = filter.calls().iter().find(|call| !said.contains(&format!("{call} (Linux")));
    check!(silent.is_none(), "{filter}: nothing of {silent:?} in {said}");
    Ok(())
}

/// A container that has a bit of everything, sleeps.
fn container(bundle: &Bundle) -> Result<()> {
    std::fs::create_dir_all(bundle.path("vol"))?;
    std::fs::write(bundle.path("vol/file"), "content\n")?;
    bundle.change(|spec| {
        push(&mut spec["mounts"], mount("/v", "bind", &bundle.text("vol"), &["rbind", "ro", "nosuid"]));
        push(&mut spec["mounts"], mount("/mnt/a/b", "tmpfs", "tmpfs", &["size=64k", "noexec"]));
        spec["root"]["readonly"] = json!(true);
        spec["process"]["cwd"] = json!("/mnt/a/b");
        spec["process"]["args"] = json!(["sh", "-c", "exec sleep 100000"]);
    })
}

/// What every command of one life shows.
fn life(bundle: &Bundle) -> Result<String> {
    let mut told = String::new();
    let created = bundle.call("create", &[])?;
    tell(bundle, &mut told, "create", &created)?;
    for (verb, words) in [
        ("start", &[][..]),
        ("start", &[]),
        ("exec", &["sh", "-c", SHOW]),
        ("exec", &["sh", "-c", "exit 7"]),
        ("ps", &["-eo", "comm,pid"]),
        ("delete", &[]),
        ("pause", &[]),
        ("resume", &[]),
        ("kill", &["USR1"]),
        ("kill", &["KILL"]),
    ] {
        let ran = bundle.call(verb, words)?;
        if words == ["KILL"] {
            bundle.until("stopped")?;
        }
        tell(bundle, &mut told, verb, &ran)?;
    }
    let ran = bundle.call_with("update", &["--pids-limit", "77"], &[])?;
    tell(bundle, &mut told, "update", &ran)?;
    tell(bundle, &mut told, "delete", &bundle.call("delete", &[])?)?;
    bundle.change(|spec| spec["process"]["args"] = json!(["sh", "-c", format!("{SHOW}; exit 3")]))?;
    tell(bundle, &mut told, "run", &bundle.run()?)?;
    Ok(told)
}

fn tell(bundle: &Bundle, told: &mut String, verb: &str, ran: &Ran) -> Result<()> {
    let state = bundle.state()?;
    let status = state["status"].as_str().unwrap_or("gone");
    let (mut out, error) = (bundle.plain(&ran.out), bundle.plain(ran.error.as_deref().unwrap_or("")));
    if verb == "ps" {
        out.retain(|c| c.is_alphabetic() || c == '\n');
    }
    writeln!(told, "{verb}: exit {}, {status}, {error:?}\n{out}", ran.code)?;
    Ok(())
}
