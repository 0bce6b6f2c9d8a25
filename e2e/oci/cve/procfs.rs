//! The runtime's words to the kernel go to the kernel's own procfs, whatever the image calls /proc.

use super::race::{Swapper, bundle, once, outside, story};
use anyhow::Result;
use berth_e2e::bundle::{mount, push};
use berth_e2e::check;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

/// /proc and /sys as links of the image's, and volumes mounted over them: refused, with the place named.
pub(super) fn links_and_volumes_in_its_place() -> Result<()> {
    for name in ["proc", "sys"] {
        for text in ["/tmp", "tmp", "./tmp/missing", "OUTSIDE", "/proc/self/root/tmp"] {
            let bundle = bundle("true")?;
            let outside = outside(&bundle)?;
            fs::remove_dir(bundle.rootfs().join(name))?;
            symlink(text.replace("OUTSIDE", &outside.display().to_string()), bundle.rootfs().join(name))?;
            let ran = once(&bundle)?;
            let named = ran.error.as_ref().is_some_and(|error| error.contains(&format!("/{name}")));
            check!(named && ran.code != 0, "{name} -> {text}: {}", story(&ran));
            check!(bundle.left_after_all().is_empty(), "left: {:?}", bundle.left());
        }
    }
    for (at, kind) in [
        ("/proc", "bind"),
        ("/proc", "tmpfs"),
        ("/proc/sys", "tmpfs"),
        ("/x/../proc", "bind"),
        ("/link", "bind"),
    ] {
        let bundle = bundle("true")?;
        symlink("/proc/self", bundle.rootfs().join("link"))?;
        bundle.change(|c| {
            let volume = bundle.text("outside");
            let options: &[&str] = if kind == "bind" { &["rbind"] } else { &[] };
            push(&mut c["mounts"], mount(at, kind, &volume, options));
        })?;
        outside(&bundle)?;
        let ran = once(&bundle)?;
        check!(ran.error.is_some(), "{kind} over {at}: {}", story(&ran));
    }
    Ok(())
}

/// The image has a /proc of its own with links where parameters are written, and the container's procfs is elsewhere.
pub(super) fn writes_that_are_led_away() -> Result<()> {
    const NAME: &str = "sys/net/ipv4/ip_forward";
    let bundle = bundle("cat /mnt/sys/net/ipv4/ip_forward")?;
    let outside = outside(&bundle)?;
    let victim = outside.join("victim");
    fs::write(&victim, "as it was")?;
    for dir in ["proc", "proc2"] {
        let parameter = bundle.rootfs().join(dir).join(NAME);
        fs::create_dir_all(bundle.rootfs().join(dir).join("sys/net/ipv4"))?;
        fs::create_dir_all(bundle.rootfs().join(dir).join("self/attr"))?;
        symlink(&victim, &parameter)?;
        symlink(&victim, bundle.rootfs().join(dir).join("self/attr/exec"))?;
    }
    bundle.change(|c: &mut Value| {
        if let Some(list) = c["mounts"].as_array_mut() {
            list.retain(|m| m["destination"] != "/proc");
            list.push(mount("/mnt", "proc", "proc", &[]));
        }
        c["linux"]["sysctl"] = json!({"net.ipv4.ip_forward": "1"});
        c["process"]["oomScoreAdj"] = json!(77);
    })?;
    let swapper = Swapper::start(&bundle.rootfs().join("proc"), &bundle.rootfs().join("proc2"));
    for _ in 0..20 {
        let ran = once(&bundle)?;
        check!(ran.out == "1\n", "{}", story(&ran));
        check!(fs::read_to_string(&victim)? == "as it was", "written outside");
    }
    drop(swapper);
    // The trap is real: a write by name goes there.
    fs::write(bundle.rootfs().join("proc").join(NAME), "1")?;
    check!(fs::read_to_string(&victim)? == "1", "the link leads nowhere");
    Ok(())
}
