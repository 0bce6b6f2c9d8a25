//! What a container must not see or write stays so, whatever its image puts where the runtime looks.

use super::race::{Swapper, bundle, once, story};
use anyhow::Result;
use berth_e2e::check;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;

/// Says of every procfs it finds whether the masks and the read-only paths are on it.
///
/// From within: the names may change places under its feet.
const LOOK: &str = "for d in /proc /proc2; do cd $d 2>/dev/null && if [ -e self/status ]; then echo procfs;
    for f in kcore keys timer_list interrupts; do [ -e $f ] && [ \"$(stat -c %t:%T $f)\" != 1:3 ] && echo BARE $f; done;
    for f in sysrq-trigger sys/kernel/core_pattern irq/default_smp_affinity; do
        ( : >> $f ) 2>/dev/null && echo WRITABLE $f; done; fi; done; true";

/// The image's /dev/null is a link to a file that is masked, or changes places with one.
pub(super) fn a_null_device_of_the_images() -> Result<()> {
    let bundle = bundle(LOOK)?;
    bundle.change(|c: &mut Value| {
        if let Some(list) = c["mounts"].as_array_mut() {
            list.retain(|m| !m["destination"].as_str().is_some_and(|d| d.starts_with("/dev")));
        }
    })?;
    let (null, trap) = (bundle.rootfs().join("dev/null"), bundle.rootfs().join("dev/trap"));
    symlink("/proc/sysrq-trigger", &null)?;
    let ran = once(&bundle)?;
    check!(!ran.out.contains("BARE") && !ran.out.contains("WRITABLE"), "{}", story(&ran));
    fs::remove_file(&null)?;
    let kind = rustix::fs::FileType::CharacterDevice;
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &null, kind, mode, rustix::fs::makedev(1, 3))?;
    symlink("/proc/self/attr/exec", &trap)?;
    let swapper = Swapper::start(&null, &trap);
    let mut ran_well = 0;
    for _ in 0..25 {
        let ran = once(&bundle)?;
        check!(!ran.out.contains("BARE") && !ran.out.contains("WRITABLE"), "{}", story(&ran));
        ran_well += usize::from(ran.out.contains("procfs"));
    }
    check!(swapper.turns() > 1000, "they hardly changed places: {}", swapper.turns());
    check!(ran_well > 0, "no container ever ran");
    Ok(())
}

/// Another container with the same rootfs exchanges /proc, once mounted, with an empty directory: paths that "are not there" need no
/// mask, and then they are there again.
pub(super) fn proc_swapped_while_it_is_masked() -> Result<()> {
    let bundle = bundle(LOOK)?;
    let (proc, other) = (bundle.rootfs().join("proc"), bundle.rootfs().join("proc2"));
    fs::create_dir_all(other.join("sys/kernel"))?;
    let swapper = Swapper::start(&proc, &other);
    let mut whole = 0;
    for _ in 0..60 {
        let ran = once(&bundle)?;
        check!(!ran.out.contains("BARE") && !ran.out.contains("WRITABLE"), "{}", story(&ran));
        whole += usize::from(ran.out.contains("procfs"));
    }
    check!(swapper.turns() > 1000, "they hardly changed places: {}", swapper.turns());
    check!(whole > 0, "no container ever had a procfs");
    Ok(())
}

/// The counters from which one tenant reads another's secrets are hidden by default.
pub(super) fn energy_counters() -> Result<()> {
    let path = "/sys/devices/virtual/powercap";
    check!(berth_core::profile::MASKED_PATHS.contains(&path), "{path} is not among the masked paths");
    // A machine without them has another directory of the same kind.
    let path = if fs::exists(path)? { path } else { "/sys/devices/virtual/mem" };
    check!(fs::read_dir(path)?.next().is_some(), "nothing in {path} on this machine");
    let bundle = bundle(&format!("ls -A {path} | wc -l; mkdir {path}/x 2>/dev/null && echo WRITABLE; true"))?;
    let ran = once(&bundle)?;
    let plain: usize = ran.out.lines().next().unwrap_or_default().trim().parse()?;
    bundle.change(|c| berth_e2e::bundle::push(&mut c["linux"]["maskedPaths"], path.into()))?;
    let ran = once(&bundle)?;
    check!(ran.out == "0\n", "{}", story(&ran));
    check!(plain > 0 || path.ends_with("powercap"), "it was empty before as well");
    Ok(())
}
