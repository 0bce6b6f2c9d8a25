//! Configurations that make no sense: both refuse, and ours names the place.

use super::row::{Row, row};
use anyhow::Result;
use berth_e2e::bundle::Bundle;
use serde_json::{Value, json};

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [whole(), more_whole(), types(), more_types(), missing(), more_missing(), values(), text()]
        .into_iter()
        .flatten()
        .collect()
}

/// A file that is written as it is, in the place of a configuration.
fn raw(name: &'static str, text: &'static [u8]) -> Row {
    row(name).see(move |bundle| {
        bundle.raw(text)?;
        Ok(bundle.run()?.seen(bundle))
    })
}

fn whole() -> Vec<Row> {
    vec![
        raw("bad: no JSON", b"not JSON").refused(&["config.json", "line 1"]),
        raw("bad: empty", b"").refused(&["config.json"]),
        raw("bad: cut off", b"{\"ociVersion\": \"1.2.0\", \"process\": {")
            .refused(&["config.json", "line 1"]),
        raw("bad: a list", b"[]").refused(&["config.json"]),
        raw("bad: null", b"null").refused(&["config.json"]),
        raw("bad: an empty object", b"{}").refused(&["config.json"]),
        raw("bad: not UTF-8", b"{\"ociVersion\": \"\xff\xfe\"}").refused(&["config.json"]),
        row("bad: missing config.json")
            .see(|bundle| {
                std::fs::remove_file(bundle.path("config.json"))?;
                Ok(bundle.run()?.seen(bundle))
            })
            .refused(&["config.json"]),
        row("bad: a folder in its place")
            .see(|bundle| {
                std::fs::remove_file(bundle.path("config.json"))?;
                std::fs::create_dir(bundle.path("config.json"))?;
                Ok(bundle.run()?.seen(bundle))
            })
            .refused(&["config.json"]),
        row("bad: words behind the end")
            .see(|bundle| {
                let text = serde_json::to_vec(&bundle.config()?)?;
                bundle.raw(&[&text[..], b" more"].concat())?;
                Ok(bundle.run()?.seen(bundle))
            })
            .differs("config.json", "[exit 0]", "half of the file says something else"),
    ]
}

fn more_whole() -> Vec<Row> {
    vec![
        row("bad: nested without end")
            .see(|bundle| {
                let deep = format!(
                    "{{\"ociVersion\": \"1.2.0\", \"x\": {}{}}}",
                    "[".repeat(100_000),
                    "]".repeat(100_000)
                );
                bundle.raw(deep.as_bytes())?;
                Ok(bundle.run()?.seen(bundle))
            })
            .refused(&["config.json"]),
    ]
}

/// A value of a wrong kind at a place, which is named.
fn at(name: &'static str, pointer: &'static str, value: Value, place: &'static str) -> Row {
    row(name).see(move |bundle| put(bundle, pointer, &value)).refused(&[place])
}

/// Puts a value at a JSON pointer, making objects on the way, and runs the bundle.
fn put(bundle: &Bundle, pointer: &str, value: &Value) -> Result<String> {
    bundle.change(|spec| {
        let mut here = spec;
        for part in pointer.split('/').skip(1) {
            here = match part.parse::<usize>() {
                Ok(index) if here.is_array() => &mut here[index],
                _ => &mut here[part],
            };
        }
        *here = value.clone();
    })?;
    Ok(bundle.run()?.seen(bundle))
}

fn types() -> Vec<Row> {
    vec![
        at("bad: the version is a number", "/ociVersion", json!(1), "ociVersion"),
        at("bad: the process is a text", "/process", json!("sh"), "process"),
        at("bad: the arguments are a text", "/process/args", json!("sh"), "process.args"),
        at("bad: an argument is a number", "/process/args/0", json!(1), "process.args[0]"),
        at("bad: an entry of the environment is a number", "/process/env/0", json!(1), "process.env[0]"),
        at("bad: the terminal is a text", "/process/terminal", json!("no"), "process.terminal"),
        at("bad: the user is a number", "/process/user", json!(0), "process.user"),
        at("bad: the uid is a text", "/process/user/uid", json!("root"), "process.user.uid"),
        at("bad: the umask is a text", "/process/user/umask", json!("022"), "process.user.umask"),
        at(
            "bad: a group is a text",
            "/process/user/additionalGids",
            json!(["staff"]),
            "process.user.additionalGids[0]",
        ),
        at("bad: the root is a text", "/root", json!("rootfs"), "root"),
        at("bad: the root's path is a number", "/root/path", json!(7), "root.path"),
        at("bad: read-only is a number", "/root/readonly", json!(1), "root.readonly"),
        at("bad: the hostname is a number", "/hostname", json!(7), "hostname"),
        at("bad: the mounts are an object", "/mounts", json!({}), "mounts"),
        at("bad: a mount is a text", "/mounts/0", json!("/proc"), "mounts[0]"),
        at("bad: a mount's type is a number", "/mounts/0/type", json!(1), "mounts[0].type"),
        at("bad: the namespaces are an object", "/linux/namespaces", json!({}), "linux.namespaces"),
        at("bad: masked paths are a text", "/linux/maskedPaths", json!("/proc"), "linux.maskedPaths"),
        at("bad: the sysctls are a list", "/linux/sysctl", json!([]), "linux.sysctl"),
        at("bad: a sysctl is a number", "/linux/sysctl", json!({"net.ipv4.ip_forward": 1}), "linux.sysctl"),
        at("bad: the cgroup's path is a number", "/linux/cgroupsPath", json!(1), "linux.cgroupsPath"),
        at("bad: the annotations are a list", "/annotations", json!([]), "annotations"),
        at("bad: an annotation is a number", "/annotations", json!({"a": 1}), "annotations"),
    ]
}

fn more_types() -> Vec<Row> {
    vec![
        at(
            "bad: the capabilities are a list",
            "/process/capabilities",
            json!(["CAP_KILL"]),
            "process.capabilities",
        ),
        at("bad: the oom score is a text", "/process/oomScoreAdj", json!("x"), "process.oomScoreAdj"),
        at("bad: the devices are an object", "/linux/devices", json!({"path": "/dev/x"}), "linux.devices"),
    ]
}

fn missing() -> Vec<Row> {
    let without = |name: &'static str, parent: &'static str, key: &'static str| {
        row(name).see(move |bundle| {
            bundle.change(|spec| {
                let place = if parent.is_empty() { Some(spec) } else { spec.pointer_mut(parent) };
                drop(place.and_then(Value::as_object_mut).and_then(|map| map.remove(key)));
            })?;
            Ok(bundle.run()?.seen(bundle))
        })
    };
    vec![
        without("bad: no version", "", "ociVersion").differs(
            "ociVersion",
            "[exit 0]",
            "the specification requires the field",
        ),
        without("bad: no process", "", "process").refused(&["process"]),
        without("bad: no root", "", "root").refused(&["root"]),
        without("bad: no linux", "", "linux").refused(&["linux"]),
        without("bad: no arguments", "/process", "args").refused(&["process.args"]),
        without("bad: no directory", "/process", "cwd").refused(&["process"]),
        without("bad: no namespaces", "/linux", "namespaces").refused(&["linux.namespaces"]),
        without("no user is root", "/process", "user").differs(
            "process",
            "[exit 0]",
            "the specification requires the field",
        ),
        row("bad: the rootfs is missing")
            .see(|bundle| {
                std::fs::remove_dir_all(bundle.rootfs())?;
                Ok(bundle.run()?.seen(bundle))
            })
            .refused(&["rootfs"]),
    ]
}

fn more_missing() -> Vec<Row> {
    vec![
        row("bad: the rootfs is a file")
            .see(|bundle| {
                std::fs::remove_dir_all(bundle.rootfs())?;
                std::fs::write(bundle.rootfs(), "")?;
                Ok(bundle.run()?.seen(bundle))
            })
            .refused(&["rootfs"]),
    ]
}

fn values() -> Vec<Row> {
    vec![
        at("bad: version 2", "/ociVersion", json!("2.0.0"), "ociVersion").differs(
            "ociVersion",
            "[exit 0]",
            "another major version is another format",
        ),
        at("bad: a version that is none", "/ociVersion", json!("newest"), "ociVersion").differs(
            "ociVersion",
            "[exit 0]",
            "what is no version promises nothing",
        ),
        at("bad: the root's path is empty", "/root/path", json!(""), "root.path"),
        at("bad: the root is missing elsewhere", "/root/path", json!("../nowhere"), "nowhere"),
        at("bad: the uid is negative", "/process/user/uid", json!(-1), "process.user.uid"),
        at("bad: the uid is too large", "/process/user/uid", json!(4_294_967_296_u64), "process.user.uid"),
        at("bad: the gid is too large", "/process/user/gid", json!(99_999_999_999_u64), "process.user.gid"),
        at("bad: a group is 4294967295", "/process/user/additionalGids", json!([u32::MAX]), "process.user"),
        at("bad: the umask is negative", "/process/user/umask", json!(-1), "process.user.umask"),
        at(
            "bad: the console is negative",
            "/process/consoleSize",
            json!({"height": -1, "width": 80}),
            "process.consoleSize",
        ),
        at("bad: a huge oom score", "/process/oomScoreAdj", json!(99_999_999_999_i64), "oom"),
        at("bad: a domain name of 65 bytes", "/domainname", json!("x".repeat(65)), "domainname"),
        at("bad: a hostname of 65 bytes", "/hostname", json!("x".repeat(65)), "hostname"),
    ]
}

fn text() -> Vec<Row> {
    vec![
        at("bad: a NUL in the directory", "/process/cwd", json!("/a\0b"), "process.cwd"),
        at("bad: a NUL in the hostname", "/hostname", json!("a\0b"), "hostname").differs(
            "hostname",
            "[exit 0]",
            "what follows the NUL nobody sees",
        ),
        at("bad: a NUL in the root", "/root/path", json!("root\0fs"), "root.path"),
        at(
            "bad: a NUL in a masked path",
            "/linux/maskedPaths",
            json!(["/proc/k\0x"]),
            "linux.maskedPaths[0]",
        ),
        at(
            "bad: a NUL in a device",
            "/linux/devices",
            json!([{"path": "/dev/a\0b", "type": "c", "major": 1, "minor": 3}]),
            "linux.devices[0].path",
        ),
        at(
            "bad: a NUL in a namespace's path",
            "/linux/namespaces/1/path",
            json!("/proc/self\0/ns/net"),
            "linux.namespaces[1].path",
        ),
        row("an unknown key is passed over")
            .change(|spec, _| spec["linux"]["somethingNew"] = json!({"a": 1}))
            .args(&["true"])
            .same(&["[exit 0]"]),
        row("annotations of every form")
            .change(|spec, _| spec["annotations"] = json!({"a.b/c": "x", "empty": "", "é": "\u{1f600}"}))
            .args(&["true"])
            .same(&["[exit 0]"]),
    ]
}
