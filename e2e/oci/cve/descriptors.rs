//! No descriptor of the host's reaches a container: not by a leak, not by a working directory, not by looking at who joins.

use super::race::{bundle, once, outputs, story};
use anyhow::Result;
use berth_e2e::check;
use rustix::fd::AsRawFd;
use serde_json::json;
use std::os::unix::fs::symlink;
use std::process::Command;

const LIST: &str = "ls /proc/self/fd | tr '\\n' ' '";

/// The caller leaves its root directory open for whoever it starts; the container finds its three streams.
pub(super) fn nothing_leaks() -> Result<()> {
    let leak = std::fs::File::open("/")?;
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty())?;
    // The trap is real: a plain child has it.
    let number = leak.as_raw_fd();
    let plain = Command::new("ls").arg("/proc/self/fd").output()?;
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    check!(plain.lines().any(|line| line == number.to_string()), "{number} is not in {plain}");
    let bundle = bundle(LIST)?;
    let ran = once(&bundle)?;
    // ls itself has the directory open.
    check!(ran.out == "0 1 2 3 ", "{}", story(&ran));
    bundle.change(|c| c["process"]["args"] = json!(["sleep", "1000"]))?;
    bundle.up()?;
    let ran = bundle.exec(LIST)?;
    check!(ran.out == "0 1 2 3 ", "{}", story(&ran));
    let first = format!("/proc/{}/fd", bundle.pid()?);
    let open: Vec<_> = std::fs::read_dir(first)?.flatten().map(|entry| entry.file_name()).collect();
    check!(open.len() == 3, "the first process has {open:?}");
    Ok(())
}

/// /proc/self/fd/N as working directory, and links to it, while the caller has its root directory open.
pub(super) fn a_working_directory_by_number() -> Result<()> {
    let leak = std::fs::File::open("/")?;
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty())?;
    let number = leak.as_raw_fd();
    // The trap is real: a shell walks in.
    let naive = Command::new("sh").args(["-c", &format!("cd /proc/self/fd/{number} && pwd")]).output()?;
    check!(naive.status.success(), "{naive:?}");
    let bundle = bundle("ls -d ../../../../../proc/1/root/../../work ../../../etc/shadow && echo OUT; true")?;
    symlink(format!("/proc/self/fd/{number}"), bundle.rootfs().join("wd"))?;
    let numbers = (3..16).chain([number]).map(|n| format!("/proc/self/fd/{n}"));
    let places: Vec<String> = numbers.chain(["/wd".to_owned(), "/proc/self/cwd/..".to_owned()]).collect();
    for cwd in &places {
        bundle.change(|c| c["process"]["cwd"] = json!(cwd))?;
        let ran = once(&bundle)?;
        check!(ran.error.is_some() && !ran.out.contains("OUT"), "{cwd}: {}", story(&ran));
    }
    bundle.change(|c| {
        c["process"]["cwd"] = json!("/");
        c["process"]["args"] = json!(["sleep", "1000"]);
    })?;
    bundle.up()?;
    for cwd in &places {
        let ran = bundle.call_with("exec", &["--cwd", cwd], &["pwd"])?;
        check!(ran.error.is_some() && ran.code != 0, "exec in {cwd}: {}", story(&ran));
    }
    Ok(())
}

/// A process of the container looks for others that are not its own program yet and opens what they hold.
pub(super) fn a_process_that_joins() -> Result<()> {
    let script = "own=$(stat -c %d:%i /.); while true; do for p in /proc/[0-9]*; do
        case $(cat $p/cmdline 2>/dev/null) in berth-shim*) echo seen; ls -l $p/fd/ 2>/dev/null | grep -q ' 3 -> ' && echo LEAK;
        for l in root cwd; do there=$(stat -c %d:%i $p/$l/. 2>/dev/null) && [ $there != $own ] && echo LEAK $p/$l; done;; esac; done; done";
    let bundle = bundle(script)?;
    let mut step = bundle.step(&["create", bundle.id()])?;
    let child = step.spawn()?;
    check!(step.end(child)?.code == 0, "create");
    bundle.must("start", &[])?;
    for _ in 0..60 {
        let ran = bundle.call("exec", &["true"])?;
        check!(ran.code == 0, "{}", story(&ran));
    }
    let out = outputs(&bundle);
    check!(out.contains("seen"), "it never saw one");
    check!(!out.contains("LEAK"), "{}", out.replace("seen\n", ""));
    Ok(())
}
