//! More of something than fits where it is told to the kernel: refused, and nothing wraps around.

use super::race::{bundle, once, story};
use anyhow::Result;
use berth_e2e::bundle::push;
use berth_e2e::check;
use serde_json::{Value, json};

type Change = fn(&mut Value);

fn mapped(count: u32, change: impl Fn(u32) -> Value) -> impl Fn(&mut Value) {
    move |c| {
        push(&mut c["linux"]["namespaces"], json!({"type": "user"}));
        let all: Vec<Value> = (0..count).map(&change).collect();
        c["linux"]["uidMappings"] = json!(all);
        c["linux"]["gidMappings"] = json!(all);
    }
}

const LONG: [(&str, Change); 6] = [
    ("a namespace's path of 70,000 bytes", |c| {
        let path = format!("/proc/self/ns/net{}", "/.".repeat(35_000));
        push(&mut c["linux"]["namespaces"], json!({"type": "uts", "path": path}));
        if let Some(list) = c["linux"]["namespaces"].as_array_mut() {
            list.retain(|n| n["type"] != "uts" || n["path"].is_string());
        }
    }),
    ("more mappings than the kernel takes", |c| {
        mapped(400, |i| json!({"containerID": i, "hostID": 300_000 + i, "size": 1}))(c);
    }),
    ("70,000 mappings", |c| {
        mapped(70_000, |i| json!({"containerID": i, "hostID": 300_000 + i, "size": 1}))(c);
    }),
    ("a mapping that ends past the last id", |c| {
        mapped(1, |_| json!({"containerID": 0, "hostID": 4_294_967_290_u32, "size": 65_536}))(c);
    }),
    ("a mapping from root to root by way of the end", |c| {
        mapped(
            2,
            |i| json!({"containerID": i * 4_294_967_290, "hostID": 300_000, "size": 4_294_967_295_u32}),
        )(c);
    }),
    ("a hostname of 70,000 bytes", |c| c["hostname"] = json!("h".repeat(70_000))),
];

/// Each is refused with a reason, and leaves nothing.
pub(super) fn more_than_fits() -> Result<()> {
    for (name, change) in LONG {
        let bundle = bundle("id -u; cat /proc/self/uid_map")?;
        bundle.change(change)?;
        let ran = once(&bundle)?;
        check!(ran.code != 0 && ran.error.is_some(), "{name}: exit {} {:?}", ran.code, ran.out);
        check!(bundle.left_after_all().is_empty(), "{name} left: {:?}", bundle.left());
    }
    // What fits in a page works.
    let bundle = bundle("wc -l < /proc/self/uid_map")?;
    bundle.change(mapped(200, |i| json!({"containerID": i, "hostID": 300_000 + i, "size": 1})))?;
    let ran = once(&bundle)?;
    check!(ran.out.trim() == "200", "{}", story(&ran));
    Ok(())
}
