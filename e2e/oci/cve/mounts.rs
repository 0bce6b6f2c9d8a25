//! Links, still or changing places, where the runtime makes and mounts things: nothing appears outside of the container.

use super::race::{Swapper, bundle, once, outside, story, tree};
use anyhow::Result;
use berth_e2e::bundle::{Bundle, mount, push};
use berth_e2e::check;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// A volume that another container changes meanwhile: directory and link change places where a mount goes.
pub(super) fn targets_swapped() -> Result<()> {
    let bundle = bundle("grep -c ' /mnt/' /proc/self/mountinfo; ls -R /mnt > /dev/null; true")?;
    let outside = outside(&bundle)?;
    let volume = bundle.path("volume");
    fs::create_dir_all(volume.join("dir"))?;
    // From the container it leads to a place in the rootfs, by name on the host to one outside of it.
    symlink(&outside, volume.join("trap"))?;
    fs::write(bundle.path("file"), "bound")?;
    bundle.change(|c| {
        let (volume, file) = (volume.display().to_string(), bundle.text("file"));
        push(&mut c["mounts"], mount("/mnt", "bind", &volume, &["rbind"]));
        push(&mut c["mounts"], mount("/mnt/dir/a/b", "tmpfs", "tmpfs", &[]));
        push(&mut c["mounts"], mount("/mnt/dir/c/file", "bind", &file, &["bind"]));
        push(&mut c["mounts"], mount("/mnt/dir", "bind", &volume, &["rbind"]));
        c["process"]["cwd"] = json!("/mnt/dir/work");
    })?;
    let swapper = Swapper::start(&volume.join("dir"), &volume.join("trap"));
    let mut ran_well = 0;
    for _ in 0..60 {
        let ran = once(&bundle)?;
        ran_well += usize::from(ran.code == 0);
        check!(tree(&outside).is_empty(), "{:?} after {}", tree(&outside), story(&ran));
    }
    check!(ran_well > 0, "no container ever ran");
    check!(swapper.turns() > 1000, "they hardly changed places: {}", swapper.turns());
    // The trap is real: whoever makes the path by name is led away soon.
    let sprung = (0..100_000).any(|_| {
        let _ = fs::create_dir_all(volume.join("dir/naive"));
        outside.join("naive").exists()
    });
    check!(sprung, "a path made by name never led outside");
    Ok(())
}

fn without_dev(c: &mut Value, keep: &[&str]) {
    if let Some(list) = c["mounts"].as_array_mut() {
        list.retain(|m| {
            let at = m["destination"].as_str().unwrap_or_default();
            !at.starts_with("/dev") || keep.contains(&at)
        });
    }
}

/// An image in which /dev, or a directory in it, is a link out.
pub(super) fn a_dev_that_leads_away() -> Result<()> {
    for name in ["dev", "dev/pts", "dev/shm", "dev/mqueue"] {
        for keep in [&["/dev", "/dev/pts", "/dev/shm", "/dev/mqueue"][..], &["/dev/pts", "/dev/shm"], &[]] {
            let bundle = bundle("true")?;
            let outside = outside(&bundle)?;
            let link = bundle.rootfs().join(name);
            if name == "dev" {
                fs::remove_dir(&link)?;
            }
            symlink(&outside, &link)?;
            bundle.change(|c| without_dev(c, keep))?;
            let ran = once(&bundle)?;
            check!(tree(&outside).is_empty(), "{name}: {:?} after {}", tree(&outside), story(&ran));
            // The trap is real: the host follows the link by name.
            fs::create_dir(link.join("naive"))?;
            check!(outside.join("naive").exists(), "the link leads nowhere");
        }
    }
    Ok(())
}

/// An image whose /dev is a link into a volume, to what is not there yet: no devices are made on the host's file system.
pub(super) fn a_dev_that_leads_into_a_volume() -> Result<()> {
    for there in [true, false] {
        let bundle = bundle("true")?;
        let volume = bundle.path("volume");
        fs::create_dir_all(&volume)?;
        if there {
            fs::create_dir(volume.join("sub"))?;
        }
        fs::remove_dir(bundle.rootfs().join("dev"))?;
        symlink("/mnt/sub", bundle.rootfs().join("dev"))?;
        bundle.change(|c| {
            without_dev(c, &[]);
            push(&mut c["mounts"], mount("/mnt", "bind", &volume.display().to_string(), &["rbind"]));
        })?;
        let ran = once(&bundle)?;
        let made = tree(&volume);
        let devices: Vec<_> =
            made.iter().filter(|line| line.contains("null") || line.contains("ptmx")).collect();
        check!(devices.is_empty(), "made in the volume: {devices:?} after {}", story(&ran));
    }
    Ok(())
}

/// Files and directories that the runtime makes for a mount or as working directory, behind links of the image's.
pub(super) fn files_behind_links() -> Result<()> {
    let bundle = bundle("true")?;
    let outside = outside(&bundle)?;
    fs::write(outside.join("mtab"), "as it was")?;
    let before = tree(&outside);
    fs::remove_dir_all(bundle.rootfs().join("etc"))?;
    symlink(&outside, bundle.rootfs().join("etc"))?;
    symlink(format!("../../../../../../../..{}", outside.display()), bundle.rootfs().join("up"))?;
    fs::write(bundle.path("file"), "bound")?;
    bundle.change(|c| {
        let file = bundle.text("file");
        for target in ["/etc/hostname", "/etc/mtab", "/up/system-fips", "/up/../../../../etc/x"] {
            push(&mut c["mounts"], mount(target, "bind", &file, &["bind", "ro"]));
        }
        push(&mut c["mounts"], mount("/up/tmpfs", "tmpfs", "tmpfs", &[]));
        c["process"]["cwd"] = json!("/up/work/dir");
    })?;
    let ran = once(&bundle)?;
    check!(ran.code == 0, "{}", story(&ran));
    check!(tree(&outside) == before, "{:?}", tree(&outside));
    check!(fs::read_to_string(outside.join("mtab"))? == "as it was", "covered or written");
    check!(bundle.rootfs().join("up").symlink_metadata()?.is_symlink(), "the image's link is gone");
    Ok(())
}

/// A device is made in a volume, and changes places with a link to a file of the host's before it gets its owner and mode.
pub(super) fn a_device_swapped() -> Result<()> {
    let bundle = bundle("true")?;
    let outside = outside(&bundle)?;
    let victim = outside.join("victim");
    fs::write(&victim, "secret")?;
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600))?;
    let volume = bundle.path("volume");
    fs::create_dir_all(&volume)?;
    symlink(&victim, volume.join("trap"))?;
    bundle.change(|c| {
        push(&mut c["mounts"], mount("/mnt", "bind", &volume.display().to_string(), &["rbind"]));
        let device = json!({
            "path": "/mnt/device", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666, "uid": 1234, "gid": 1234
        });
        c["linux"]["devices"] = json!([device]);
    })?;
    let swapper = Swapper::start(&volume.join("device"), &volume.join("trap"));
    for _ in 0..60 {
        let ran = once(&bundle)?;
        untouched(&victim, &story(&ran))?;
        // The next one has to be made, under a name that is free.
        for name in ["device", "trap"] {
            let path = volume.join(name);
            if path.symlink_metadata().is_ok_and(|m| !m.is_symlink()) {
                let _ = fs::remove_file(&path);
            }
        }
        put_back(&bundle, &volume, &victim)?;
    }
    drop(swapper);
    Ok(())
}

fn untouched(victim: &Path, story: &str) -> Result<()> {
    let meta = fs::metadata(victim)?;
    check!(
        (meta.uid(), meta.mode() & 0o777) == (0, 0o600),
        "{:o} of {} after {story}",
        meta.mode(),
        meta.uid()
    );
    Ok(())
}

/// The link back under its first name.
fn put_back(bundle: &Bundle, volume: &Path, victim: &Path) -> Result<()> {
    let _ = fs::remove_file(volume.join("device"));
    let fresh = bundle.path("fresh");
    symlink(victim, &fresh)?;
    fs::rename(&fresh, volume.join("trap"))?;
    Ok(())
}
