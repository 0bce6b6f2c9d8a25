//! /dev/console is the container's own terminal, whatever the image has there.

use super::race::{Swapper, bundle, once, outside, story, tree};
use anyhow::Result;
use berth_e2e::bundle::Bundle;
use berth_e2e::check;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const LOOK: &str = "test -t 0 && echo terminal; for f in /proc/timer_list /proc/keys; do stat -c '%n %t:%T' $f; done;
    for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern; do [ -c $f ] || ( : >> $f ) 2>/dev/null && [ ! -c $f ] && echo WRITABLE $f; done; true";

/// A container with a terminal, and a /dev of the image's own with only the terminals mounted in it.
fn image() -> Result<Bundle> {
    let bundle = bundle(LOOK)?;
    bundle.change(|c: &mut Value| {
        c["process"]["terminal"] = json!(true);
        if let Some(list) = c["mounts"].as_array_mut() {
            list.retain(|m| m["destination"] != "/dev");
        }
    })?;
    Ok(bundle)
}

fn holds(bundle: &Bundle) -> Result<()> {
    let ran = once(bundle)?;
    check!(!ran.out.contains("WRITABLE"), "{}", story(&ran));
    if ran.error.is_none() {
        check!(ran.out.contains("terminal"), "{}", story(&ran));
        check!(ran.out.matches(" 1:3").count() == 2, "not masked: {}", story(&ran));
    }
    Ok(())
}

/// Links to what the kernel hides, and out of the container.
pub(super) fn a_link_in_its_place() -> Result<()> {
    for text in ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/self/attr/exec", "OUTSIDE"] {
        let bundle = image()?;
        let outside = outside(&bundle)?;
        fs::write(outside.join("file"), "as it was")?;
        let target = text.replace("OUTSIDE", &outside.join("file").display().to_string());
        symlink(&target, bundle.rootfs().join("dev/console"))?;
        holds(&bundle)?;
        check!(fs::read_to_string(outside.join("file"))? == "as it was", "{target}");
        // The trap is real: by name the link leads there from here.
        let naive = fs::metadata(bundle.rootfs().join("dev/console"));
        check!(text != "OUTSIDE" || naive.is_ok_and(|m| m.len() == 9), "the link leads nowhere");
    }
    Ok(())
}

/// A file and a link to a masked path, changing places.
pub(super) fn swapped_while_it_is_made() -> Result<()> {
    let bundle = image()?;
    let outside = outside(&bundle)?;
    let (one, other) = (bundle.rootfs().join("dev/console"), bundle.rootfs().join("dev/trap"));
    fs::write(&one, "")?;
    symlink("/proc/sysrq-trigger", &other)?;
    let swapper = Swapper::start(&one, &other);
    for _ in 0..25 {
        holds(&bundle)?;
    }
    check!(swapper.turns() > 1000, "they hardly changed places: {}", swapper.turns());
    check!(tree(&outside).is_empty(), "{:?}", tree(&outside));
    Ok(())
}
