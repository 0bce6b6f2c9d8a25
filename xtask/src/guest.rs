//! The virtual machine that tests run in: Debian with systemd, from packages of the host's own apt sources.
//!
//! It gives what a developer's machine may lack: systemd as process 1, cgroup v2 with every controller, an older kernel.

use crate::{layout, process};
use anyhow::{Context, bail};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What builds and runs it.
pub(crate) const PACKAGES: [&str; 4] = ["e2fsprogs", "mmdebstrap", "qemu-system-x86", "qemu-utils"];

/// The release of Debian that it is.
const RELEASE: &str = "bookworm";

/// Size of its disk; the file takes what is used.
const DISK: u64 = 4 << 30;

/// Units that only take time.
const MASKED: [&str; 7] = [
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
];

/// Builds `<tools>/vm/{disk.qcow2, vmlinuz, initrd}` unless they are there and of this recipe.
pub(crate) fn run() -> anyhow::Result<()> {
    let out = layout::tools().join("vm");
    let stamp = out.join("stamp");
    let wanted = fingerprint()?;
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let begun = Instant::now();
    fs::create_dir_all(&out)?;
    let part = out.join(format!("part-{}", std::process::id()));
    let built = build(&part);
    let moved = built.and_then(|()| {
        ["disk.qcow2", "vmlinuz", "initrd"].iter().try_for_each(|name| {
            fs::rename(part.join(name), out.join(name)).with_context(|| format!("keeping {name}"))
        })
    });
    // A tree of half a system is of no use to anybody.
    let removed = fs::remove_dir_all(&part);
    moved?;
    removed.with_context(|| format!("removing {}", part.display()))?;
    println!("   guest built in {} s", begun.elapsed().as_secs());
    Ok(fs::write(&stamp, wanted)?)
}

fn build(part: &Path) -> anyhow::Result<()> {
    let root = part.join("root");
    fs::create_dir_all(part)?;
    let recipe = recipe();
    let list = fs::read_to_string(recipe.join("packages"))?;
    let packages: Vec<&str> = list.lines().collect();
    let mut debian = Command::new("mmdebstrap");
    debian.args(["--quiet", "--mode=root", "--variant=minbase", "--format=directory"]);
    debian.arg(format!("--include={}", packages.join(","))).arg(RELEASE).arg(&root);
    process::run(debian.args(sources()?))?;
    settle(&root, &recipe)?;
    take_kernel(&root, part)?;
    let raw = part.join("disk.raw");
    fs::File::create(&raw)?.set_len(DISK)?;
    process::run(Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).arg(&root).arg(&raw))?;
    let disk = part.join("disk.qcow2");
    process::run(Command::new("qemu-img").args(["convert", "-O", "qcow2"]).arg(&raw).arg(&disk))
}

/// The agent, and nothing that waits for a network, a user or a timer.
fn settle(root: &Path, recipe: &Path) -> anyhow::Result<()> {
    let units = root.join("etc/systemd/system");
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    fs::copy(recipe.join("agent.service"), units.join("berth-agent.service"))?;
    std::os::unix::fs::symlink("../berth-agent.service", wants.join("berth-agent.service"))?;
    let agent = root.join("usr/local/sbin/berth-agent");
    process::run(Command::new("install").arg("-Dm755").arg(recipe.join("agent.sh")).arg(&agent))?;
    for unit in MASKED {
        std::os::unix::fs::symlink("/dev/null", units.join(unit))?;
    }
    fs::write(root.join("etc/hostname"), "guest\n")?;
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost guest\n")?;
    fs::write(root.join("etc/machine-id"), "")?;
    Ok(fs::write(root.join("etc/fstab"), "")?)
}

/// QEMU starts the kernel itself: no boot loader on the disk.
fn take_kernel(root: &Path, part: &Path) -> anyhow::Result<()> {
    for (prefix, name) in [("vmlinuz-", "vmlinuz"), ("initrd.img-", "initrd")] {
        let entries = fs::read_dir(root.join("boot"))?.flatten();
        let found = entries
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(prefix)));
        let found = found.with_context(|| format!("no {prefix}* in the guest's /boot"))?;
        fs::rename(found, part.join(name))?;
    }
    Ok(())
}

/// The files of the host's apt that name the release itself.
fn sources() -> anyhow::Result<Vec<PathBuf>> {
    let folder = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.path()).collect();
    files.push("/etc/apt/sources.list".into());
    files.retain(|file| {
        fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|word| word == RELEASE))
    });
    if files.is_empty() {
        bail!("the guest is made of packages of Debian {RELEASE}, and no apt source of this host names it");
    }
    files.sort();
    Ok(files)
}

fn recipe() -> PathBuf {
    layout::root().join("e2e/vm")
}

/// Changes with the recipe.
fn fingerprint() -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    for name in ["packages", "agent.sh", "agent.service"] {
        let path = recipe().join(name);
        fs::read(&path).with_context(|| path.display().to_string())?.hash(&mut hasher);
    }
    (RELEASE, DISK, MASKED).hash(&mut hasher);
    Ok(format!("{:016x}\n", hasher.finish()))
}
