//! Bind mounts and the attributes of mounts.

use super::super::row::{Row, row};
use super::{AT_V, BELOW_V, add, bound, volume};
use anyhow::Result;
use berth_e2e::bundle::Bundle;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [attributes(), more_attributes(), recursive(), times(), sources()].into_iter().flatten().collect()
}

/// A bind of the volume with one set of options, whose attributes are looked at.
fn with(name: &'static str, options: &'static [&'static str], word: &'static str) -> Row {
    row(name).prepare(volume).change(bound(options)).sh(AT_V).same(&[word])
}

fn attributes() -> Vec<Row> {
    vec![
        with("bind: plain", &["bind"], "rw,relatime"),
        with("bind: ro", &["bind", "ro"], "ro,relatime"),
        with("bind: nosuid", &["bind", "nosuid"], "rw,nosuid,relatime"),
        with("bind: nodev", &["bind", "nodev"], "rw,nodev,relatime"),
        with("bind: noexec", &["bind", "noexec"], "rw,noexec,relatime"),
        with("bind: nosymfollow", &["bind", "nosymfollow"], "nosymfollow"),
        with(
            "bind: all of them",
            &["rbind", "ro", "nosuid", "nodev", "noexec"],
            "ro,nosuid,nodev,noexec,relatime",
        ),
        with("bind: the last word wins, rw", &["bind", "ro", "rw"], "rw,relatime"),
        with("bind: the last word wins, ro", &["bind", "rw", "ro"], "ro,relatime"),
        with("bind: words without effect", &["bind", "loud", "async", "dirsync", "mand"], "rw,relatime"),
        with("bind: defaults", &["bind", "defaults"], "").differs(
            "rw,relatime",
            "bind mounts cannot have any filesystem-specific options",
            "the specification lists the word",
        ),
        row("bind: ro is felt")
            .prepare(volume)
            .change(bound(&["bind", "ro"]))
            .sh("touch /v/x; cat /v/file")
            .same(&["content", "Read-only file system"]),
        row("bind: noexec is felt")
            .prepare(volume)
            .change(bound(&["bind", "noexec"]))
            .sh("cp /bin/busybox /v/true; /v/true")
            .same(&["[exit 126]"]),
    ]
}

fn more_attributes() -> Vec<Row> {
    vec![
        row("bind: nosymfollow is felt")
            .prepare(|bundle| {
                volume(bundle)?;
                Ok(symlink("file", bundle.path("vol/link"))?)
            })
            .change(bound(&["bind", "nosymfollow"]))
            .sh("cat /v/link; readlink /v/link")
            .same(&["file\n"]),
        row("bind: ro leaves the other flags of the source alone")
            .needs("nosuid-terminals")
            .change(|spec, _| add(spec, "/v", "bind", "/dev/pts", &["bind", "ro"]))
            .sh(AT_V)
            .differs(
                "ro,nosuid,noexec",
                "ro,relatime",
                "runc takes back what the host's administrator set there and nobody asked to change",
            ),
        row("bind: by the options alone, the type is none")
            .prepare(volume)
            .change(|spec, bundle| add(spec, "/v", "none", &bundle.text("vol"), &["rbind", "ro"]))
            .sh(AT_V)
            .same(&["ro,relatime"]),
        row("bind: by the type alone")
            .prepare(volume)
            .change(|spec, bundle| add(spec, "/v", "bind", &bundle.text("vol"), &[]))
            .sh("ls /v")
            .differs("file", "no such device", "the type can mean nothing else"),
    ]
}

/// A volume with a tmpfs below it, made inside the mount namespace of the runtime alone: by a second mount.
fn nested(
    options: &'static [&'static str],
) -> impl Fn(&mut serde_json::Value, &Bundle) + Send + Sync + 'static {
    move |spec, _| add(spec, "/v", "bind", "/dev", options)
}

/// Of /dev itself and its /dev/shm.
const DEV: &str = "awk '$5 == \"/v\" || $5 == \"/v/pts\" {print $5, $6}' /proc/self/mountinfo";

const DEV_RO: &str =
    "awk '$5 == \"/v\" || $5 == \"/v/pts\" {print $5, substr($6, 1, 2)}' /proc/self/mountinfo";

fn recursive() -> Vec<Row> {
    let one = |name: &'static str, options: &'static [&'static str], words: &[&'static str]| {
        row(name).needs("/dev/pts/ptmx").change(nested(options)).sh(DEV).same(words)
    };
    vec![
        // Only the first flag: see "bind: ro leaves the other flags of the source alone".
        one("rbind: ro reaches the top only", &["rbind", "ro"], &["/v ro", "/v/pts rw"]).sh(DEV_RO),
        one("rbind: rro reaches everything", &["rbind", "rro"], &["/v ro", "/v/pts ro"]),
        one("rbind: rnosuid", &["rbind", "rnosuid"], &["/v rw,nosuid", "/v/pts rw,nosuid"]),
        one("rbind: rnodev and rnoexec", &["rbind", "rnodev", "rnoexec"], &["nodev,noexec"]),
        one("rbind: rnosymfollow", &["rbind", "rnosymfollow"], &["nosymfollow"]),
        one("rbind: rsuid takes back", &["rbind", "rsuid", "rexec"], &["/v/pts"]),
        one("bind: what is mounted below stays out", &["bind"], &["/v rw"]),
        row("bind: the whole below is listed")
            .prepare(volume)
            .change(|spec, bundle| {
                add(spec, "/v", "bind", &bundle.text("vol"), &["rbind"]);
                add(spec, "/v/sub", "tmpfs", "tmpfs", &["ro"]);
            })
            .sh(BELOW_V)
            .same(&["/v rw", "/v/sub ro"]),
    ]
}

fn times() -> Vec<Row> {
    vec![
        with("bind: noatime", &["bind", "noatime"], "rw,noatime"),
        with("bind: strictatime", &["bind", "strictatime"], "rw\n"),
        with("bind: relatime", &["bind", "relatime"], "rw,relatime"),
        with("bind: nodiratime", &["bind", "nodiratime"], "nodiratime"),
        with("bind: rnoatime", &["rbind", "rnoatime"], "rw,noatime"),
        with("bind: rstrictatime", &["rbind", "rstrictatime"], "rw\n"),
    ]
}

fn special(bundle: &Bundle) -> Result<()> {
    drop(UnixListener::bind(bundle.path("sock"))?);
    rustix::fs::mknodat(rustix::fs::CWD, bundle.path("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0)?;
    std::fs::write(bundle.path("one"), "one\n")?;
    symlink("one", bundle.path("link"))?;
    Ok(())
}

fn sources() -> Vec<Row> {
    let one = |name: &'static str, source: &'static str, script: &'static str| {
        let change = move |spec: &mut serde_json::Value, bundle: &Bundle| {
            add(spec, "/v", "bind", &bundle.text(source), &["bind"])
        };
        row(name).prepare(special).change(change).sh(script)
    };
    vec![
        one("bind: a file", "one", "cat /v").same(&["one\n"]),
        one("bind: a symbolic link is followed", "link", "cat /v; readlink /v").same(&["one\n"]),
        one("bind: a socket", "sock", "stat -c %F /v").same(&["socket"]),
        one("bind: a fifo", "fifo", "stat -c %F /v").same(&["fifo"]),
        row("bind: a relative source starts at the bundle")
            .prepare(special)
            .change(|spec, _| add(spec, "/v", "bind", "one", &["bind"]))
            .args(&["cat", "/v"])
            .same(&["one\n"]),
        row("bind: a folder over a file")
            .prepare(volume)
            .change(|spec, bundle| add(spec, "/etc/passwd", "bind", &bundle.text("vol"), &["bind"]))
            .refused(&["/etc/passwd"]),
        row("bind: a file over a folder")
            .prepare(volume)
            .change(|spec, bundle| add(spec, "/etc", "bind", &bundle.text("vol/file"), &["bind"]))
            .refused(&["/etc"]),
    ]
}
