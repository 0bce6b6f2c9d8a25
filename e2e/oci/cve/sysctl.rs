//! Kernel parameters: a container's own, one value each, or none at all.

use super::race::{bundle, once, story};
use anyhow::Result;
use berth_e2e::check;
use serde_json::{Value, json};
use std::fs;

fn host(name: &str) -> Result<String> {
    Ok(fs::read_to_string(format!("/proc/sys/{name}"))?)
}

fn without(kind: &str) -> impl Fn(&mut Value) + '_ {
    move |c| {
        if let Some(list) = c["linux"]["namespaces"].as_array_mut() {
            list.retain(|n| n["type"] != kind);
        }
    }
}

/// Parameters of namespaces that the container shares with the host, by leaving them out or by a path, and those of the machine.
pub(super) fn the_hosts_own() -> Result<()> {
    let cases = [
        ("network", "net.ipv4.ip_default_ttl", "net/ipv4/ip_default_ttl", "77"),
        ("ipc", "kernel.shmmni", "kernel/shmmni", "77"),
        ("uts", "kernel.domainname", "kernel/domainname", "evil"),
    ];
    for (kind, name, file, value) in cases {
        let before = host(file)?;
        check!(before.trim() != value, "{name} is {value} already");
        for path in
            [None, Some(format!("/proc/self/ns/{}", kind.replace("network", "net"))), Some(String::new())]
        {
            let bundle = bundle("true")?;
            bundle.change(without(kind))?;
            bundle.change(|c| {
                if kind == "uts" {
                    c["hostname"] = Value::Null;
                }
                if let (Some(path), Some(list)) = (&path, c["linux"]["namespaces"].as_array_mut()) {
                    list.push(json!({"type": kind, "path": path}));
                }
                c["linux"]["sysctl"] = json!({name: value});
            })?;
            let ran = once(&bundle)?;
            check!(host(file)? == before, "the host's {name} changed by {path:?}");
            // An empty path is a namespace of its own, for which it is fine.
            let own = path.as_ref().is_some_and(String::is_empty);
            check!(own == (ran.code == 0), "{name} by {path:?}: {}", story(&ran));
        }
    }
    the_machines()
}

fn the_machines() -> Result<()> {
    for name in [
        "kernel.core_pattern",
        "kernel/core_pattern",
        "vm.overcommit_memory",
        "fs.file-max",
        "net/../kernel/core_pattern",
    ] {
        let bundle = bundle("true")?;
        bundle.change(|c| c["linux"]["sysctl"] = json!({name: "|/evil"}))?;
        let ran = once(&bundle)?;
        check!(ran.error.is_some(), "{name}: {}", story(&ran));
    }
    Ok(())
}

/// A value, or a name, in which a second parameter hides.
pub(super) fn values_that_are_two() -> Result<()> {
    let before = host("kernel/core_pattern")?;
    let hidden = [
        ("net.ipv4.ip_default_ttl", "64+kernel.core_pattern=|/evil"),
        ("net.ipv4.ip_default_ttl", "64\nkernel.core_pattern=|/evil"),
        ("net.ipv4.ip_default_ttl", "64\u{0}kernel.core_pattern=|/evil"),
        ("net.ipv4.ip_default_ttl+kernel.core_pattern", "|/evil"),
        ("net.ipv4.ip_default_ttl\nkernel.core_pattern", "|/evil"),
        ("net.ipv4.ip_default_ttl=64 kernel.core_pattern", "|/evil"),
    ];
    for (name, value) in hidden {
        let bundle = bundle("true")?;
        bundle.change(|c| c["linux"]["sysctl"] = json!({name: value}))?;
        let ran = once(&bundle)?;
        check!(ran.code != 0 && ran.error.is_some(), "{name:?} = {value:?}: {}", story(&ran));
        check!(host("kernel/core_pattern")? == before, "the host's pattern changed");
        check!(bundle.left_after_all().is_empty(), "left: {:?}", bundle.left());
    }
    Ok(())
}
