//! Network devices that are moved into the container.

use super::host::Holder;
use super::row::{Row, row};
use anyhow::{Context, Result, ensure};
use berth_e2e::bundle::{Bundle, Runtime, push};
use serde_json::{Value, json};
use std::process::Command;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [moved(), more_moved(), joined(), refused(), more_refused(), survivors()].into_iter().flatten().collect()
}

/// Devices of the host that go when this does, wherever they are not gone already.
struct Nics(Vec<String>);

impl Drop for Nics {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = ip(&["link", "del", name]);
        }
    }
}

fn ip(words: &[&str]) -> Result<String> {
    let ran = Command::new("ip").args(words).output().context("ip")?;
    ensure!(ran.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// The name of a device of this bundle's: fifteen bytes at most.
fn nic(bundle: &Bundle, which: &str) -> String {
    let own = bundle.id().trim_start_matches("berth-e2e-").replace('-', "x");
    format!("be{own}{which}")
}

/// Makes a device of whatever kind this kernel has, that does nothing.
fn add(name: &str) -> Result<()> {
    let kinds = ["dummy", "ifb"];
    let made = kinds.into_iter().any(|kind| ip(&["link", "add", name, "type", kind]).is_ok());
    ensure!(made, "no device of {kinds:?} can be made");
    Ok(())
}

/// Whether this machine lets a device be made.
pub(super) fn can_be_made() -> bool {
    let nics = Nics(vec![format!("be{}", std::process::id())]);
    add(&nics.0[0]).is_ok()
}

/// Two devices with addresses, the first of them up. One that runc takes down loses those of IPv6, so it has none.
fn nics(bundle: &Bundle) -> Result<Nics> {
    let (a, b) = (nic(bundle, "a"), nic(bundle, "b"));
    let nics = Nics(vec![a.clone(), b.clone()]);
    add(&a)?;
    add(&b)?;
    ip(&["link", "set", &a, "up"])?;
    for words in [
        &["10.77.1.1/24"][..],
        &["169.254.7.7/16", "scope", "link"],
        &["10.77.2.1/24", "valid_lft", "9000", "preferred_lft", "9000"],
    ] {
        ip(&[&["addr", "add"], words, &["dev", &a]].concat())?;
    }
    ip(&["addr", "add", "fd77::1/64", "dev", &b, "nodad"])?;
    Ok(nics)
}

/// Names without what differs from bundle to bundle.
fn plain(bundle: &Bundle, text: &str) -> String {
    ["a", "b"]
        .iter()
        .fold(text.to_owned(), |text, which| text.replace(&nic(bundle, which), &format!("<{which}>")))
}

/// Each device of the network but the loopback: its name, whether it is up, its global addresses.
const SHOW: &str = "for n in $(ls /sys/class/net | grep -v '^lo$'); do echo $n up $(($(cat /sys/class/net/$n/flags) & 1)); \
    ip -o addr show dev $n | awk '/inet/ && $4 !~ /^fe80/ {print $2, $3, $4}'; done";

/// What the container shows, and which of the devices are on the host afterwards.
fn seen(bundle: &Bundle, devices: &dyn Fn(&str, &str) -> Value) -> Result<String> {
    let nics = nics(bundle)?;
    bundle.change(|spec| {
        spec["linux"]["netDevices"] = devices(&nics.0[0], &nics.0[1]);
        if spec["process"]["args"] == json!(["true"]) {
            spec["process"]["args"] = json!(["sh", "-c", SHOW]);
        }
    })?;
    let ran = bundle.run()?;
    Ok(format!("{} {}", plain(bundle, &ran.seen(bundle)), plain(bundle, &on_the_host(&nics)?)))
}

/// Which of the devices are on the host, with their first address.
fn on_the_host(nics: &Nics) -> Result<String> {
    let mut left = String::from("host:");
    for name in nics.0.iter().filter(|name| ip(&["link", "show", "dev", name]).is_ok()) {
        let shown = ip(&["-o", "addr", "show", "dev", name])?;
        let addresses =
            shown.split_whitespace().filter(|word| word.starts_with("10.77.1.") || word.starts_with("fd77"));
        let up = ip(&["link", "show", "up", "dev", name])?.is_empty();
        let words: Vec<&str> = addresses.collect();
        left += &format!(" {name} {} {}", if up { "down" } else { "up" }, words.join(" "));
    }
    Ok(left)
}

fn with(name: &'static str, devices: impl Fn(&str, &str) -> Value + Send + Sync + 'static) -> Row {
    row(name).needs("nic").see(move |bundle| seen(bundle, &devices))
}

fn moved() -> Vec<Row> {
    vec![
        with("net devices: one keeps its name and its addresses", |a, _| json!({a: {}}))
            .same(&["<a> up 1\n<a> inet 10.77.1.1/24\n[exit 0] host: <b> down fd77::1/64"]),
        with("net devices: one has addresses of IPv6", |_, b| json!({b: {}}))
            .same(&["<b> up 1\n<b> inet6 fd77::1/64\n"]),
        with("net devices: one has addresses of IPv6 and is up", |a, _| {
            // If it fails the row shows it.
            let _ = ip(&["addr", "add", "fd77::2/64", "dev", a, "nodad"]);
            json!({a: {}})
        })
        .differs(
            "<a> inet6 fd77::2/64",
            "<a> inet 10.77.1.1/24\n[exit 0]",
            "every permanent address is kept",
        ),
        with("net devices: one is renamed", |a, _| json!({a: {"name": "inner0"}}))
            .same(&["inner0 up 1\ninner0 inet 10.77.1.1/24\n"]),
        with("net devices: an empty name is none", |a, _| json!({a: {"name": ""}})).same(&["<a> up 1"]),
        with("net devices: two", |a, b| json!({a: {"name": "x0"}, b: {"name": "x1"}}))
            .same(&["x0 up 1\nx0 inet 10.77.1.1/24\nx1 up 1\nx1 inet6 fd77::1/64\n"]),
        with("net devices: two swap their names", |a, b| json!({a: {"name": b}, b: {"name": a}}))
            .same(&["<a> up 1\n<a> inet6 fd77::1/64\n<b> up 1\n<b> inet 10.77.1.1/24\n"]),
        with("net devices: none", |_, _| json!({})).same(&["host: <a> up"]),
    ]
}

fn more_moved() -> Vec<Row> {
    vec![
        with("net devices: a template for a name", |a, _| json!({a: {"name": "in%d"}})).differs(
            "in0 up 1",
            "[refused",
            "the specification lets a name end in %d",
        ),
        with(
            "net devices: templates avoid each other and names that are given",
            |a, b| json!({a: {"name": "in%d"}, b: {"name": "in0"}}),
        )
        .differs(
            "in0 up 1\nin0 inet6 fd77::1/64\nin1 up 1",
            "[refused",
            "the specification lets a name end in %d",
        ),
        row("net devices: in a user namespace")
            .needs("nic")
            .prepare(super::users::give)
            .change(|spec, _| super::users::user(spec, super::users::ONE))
            .see(|bundle| seen(bundle, &|a, b| json!({a: {"name": "inner0"}, b: {}})))
            .same(&["inner0 up 1", "inner0 inet 10.77.1.1/24\n", "<b> up 1"]),
        row("net devices: a hook sees them where they are")
            .needs("nic")
            .change(|spec, bundle| {
                let script = format!("cut -d: -f1 /proc/net/dev | sort > {}", bundle.text("hook"));
                let hook =
                    json!({"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/usr/bin:/bin"]});
                spec["hooks"] = json!({"createContainer": [hook]});
            })
            .see(|bundle| {
                let shown = seen(bundle, &|a, _| json!({a: {"name": "inner0"}}))?;
                let hook = std::fs::read_to_string(bundle.path("hook")).unwrap_or_default();
                Ok(format!("{shown}{}", hook.contains("inner0")))
            })
            .same(&["true"]),
    ]
}

/// With a namespace that somebody holds, in which a script was run.
fn in_holder(bundle: &Bundle, script: &str, devices: &dyn Fn(&str, &str) -> Value) -> Result<String> {
    let holder = Holder::new(&["--net"], script)?;
    let path = holder.namespace("net");
    bundle.change(|spec| {
        if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
            list.retain(|namespace| namespace["type"] != "network");
        }
        push(&mut spec["linux"]["namespaces"], json!({"type": "network", "path": path}));
    })?;
    let shown = seen(bundle, devices)?;
    bundle.call_with("delete", &["--force"], &[])?;
    let there = Command::new("nsenter").arg(format!("--net={path}")).args(["ip", "-o", "addr"]).output()?;
    let there = String::from_utf8_lossy(&there.stdout).into_owned();
    Ok(format!("{shown} left there: {}", there.contains("10.77.1.1/24")))
}

fn joined() -> Vec<Row> {
    vec![
        row("net devices: into a namespace by its path, where they stay")
            .needs("nic")
            .see(|bundle| in_holder(bundle, "", &|a, _| json!({a: {"name": "inner0"}})))
            .same(&["inner0 up 1", "inner0 inet 10.77.1.1/24", "host: <b>", "left there: true"]),
        row("net devices: the name is taken there")
            .needs("nic")
            .see(|bundle| {
                let script = "ip link add inner0 type dummy 2>/dev/null || ip link add inner0 type ifb";
                in_holder(bundle, script, &|a, _| json!({a: {"name": "inner0"}}))
            })
            .differs(WHOLE, "host: <b>", "nothing is touched before it is known"),
        row("net devices: the old name is taken there, the new one is not")
            .needs("nic")
            .see(|bundle| {
                let a = nic(bundle, "a");
                let script = format!("ip link add {a} type dummy 2>/dev/null || ip link add {a} type ifb");
                in_holder(bundle, &script, &|a, _| json!({a: {"name": "inner0"}}))
            })
            .same(&["<a> up 0\ninner0 up 1", "left there: true"]),
    ]
}

fn refused() -> Vec<Row> {
    let bad = |name: &'static str, devices: Value| {
        row(name)
            .change(move |spec, _| spec["linux"]["netDevices"] = devices.clone())
            .refused(&["linux.netDevices"])
    };
    // Never the loopback: runc takes down what it is to move before it finds that it cannot, and that is the machine's own.
    vec![
        bad("net devices: one that is not there", json!({"berth-is-gone": {}})),
        bad("net devices: a name with a slash", json!({"a/b": {}})),
        bad("net devices: a name of two dots", json!({"..": {}})),
        bad("net devices: no name at all", json!({"": {}})),
        bad("net devices: a name with a space", json!({"a b": {}})),
        bad("net devices: a name of sixteen bytes", json!({"sixteen-bytes-00": {}})),
        bad("net devices: no object", json!(["eth0"])),
    ]
}

fn more_refused() -> Vec<Row> {
    let inner = |name: &'static str, inside: &'static str| {
        with(name, move |a, _| json!({a: {"name": inside}})).refused(&["linux.netDevices[\"be"])
    };
    vec![
        inner("net devices: a new name with a slash", "a/b"),
        inner("net devices: a new name with a colon", "a:1"),
        inner("net devices: a new name of sixteen bytes", "sixteen-bytes-00"),
        inner("net devices: the loopback's name", "lo"),
        with("net devices: in the host's network", |a, _| json!({a: {}}))
            .change(|spec, _| {
                if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
                    list.retain(|namespace| namespace["type"] != "network");
                }
            })
            .refused(&["linux.netDevices", "network namespace"]),
    ]
}

/// What there was on the host before.
const WHOLE: &str = "host: <a> up 10.77.1.1/24 <b> down fd77::1/64";

/// What a failure leaves on the host.
fn survivors() -> Vec<Row> {
    const WHY: &str = "a container that does not come to be leaves the host as it was";
    let one = |a: &str, _: &str| json!({a: {"name": "inner0"}});
    vec![
        with("net devices: two for one name", |a, b| json!({a: {"name": "x0"}, b: {"name": "x0"}}))
            .differs(WHOLE, "[refused", WHY),
        row("net devices: the second is not there")
            .needs("nic")
            .see(|bundle| {
                let shown = seen(bundle, &|a, _| json!({a: {"name": "x0"}, "zz-is-gone": {}}))?;
                // runc goes through them in any order, and loses the first only if it comes first.
                let ours = bundle.runtime() == Runtime::Berth;
                Ok(if ours { shown } else { shown.split(" host:").next().unwrap_or_default().to_owned() })
            })
            .differs(WHOLE, "[refused", WHY),
        with("net devices: a hook fails after they were moved", one)
            .change(|spec, _| spec["hooks"] = json!({"createContainer": [{"path": "/bin/false"}]}))
            .differs(WHOLE, "[refused", WHY),
        with("net devices: the program is missing", one)
            .args(&["no-such-program"])
            .differs(WHOLE, "[refused", WHY),
        with("net devices: the last hook fails", one)
            .change(|spec, _| spec["hooks"] = json!({"startContainer": [{"path": "/bin/false"}]}))
            .differs(WHOLE, "host: <b>", WHY),
    ]
}
