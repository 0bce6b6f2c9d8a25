//! Debian packages: installed when root on Debian, else the line to run is printed; some are only unpacked.

use crate::{layout, process};
use anyhow::bail;
use std::path::Path;
use std::process::{Command, Stdio};

/// Packages that tests and peers need installed.
const INSTALLED: [&str; 6] = ["iproute2", "iptables", "nftables", "libseccomp-dev", "pkg-config", "procps"];

/// Packages whose files go into test images, and Docker with what it runs: unpacked beside the peers, never installed (busybox
/// and busybox-static exclude each other, and nginx would start).
const UNPACKED: [&str; 6] = ["busybox-static", "busybox", "nginx", "docker.io", "containerd", "runc"];

/// Packages that only benchmarks need, unpacked likewise.
const FOR_BENCHMARKS: [&str; 3] = ["crun", "libyajl2", "time"];

/// Installs and unpacks what is missing.
pub(crate) fn run() -> anyhow::Result<()> {
    need(&INSTALLED)?;
    for name in UNPACKED {
        unpack(name)?;
    }
    Ok(())
}

/// Installs those of these packages that are missing.
pub(crate) fn need(packages: &[&'static str]) -> anyhow::Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|name| !installed(name)).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Unpacks what only benchmarks need.
pub(crate) fn for_benchmarks() -> anyhow::Result<()> {
    FOR_BENCHMARKS.into_iter().try_for_each(unpack)
}

fn installed(name: &str) -> bool {
    let asked = Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status}", name]).output();
    asked.is_ok_and(|output| output.stdout == b"installed")
}

fn install(missing: &[&str]) -> anyhow::Result<()> {
    let line = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if !(process::is_root() && process::exists("apt-get")) {
        bail!("packages are missing; as root on Debian run: apt-get update && {line}");
    }
    println!("   {line}");
    update()?;
    process::run(apt().args(["install", "-y", "--no-install-recommends"]).args(missing))
}

fn update() -> anyhow::Result<()> {
    process::run(apt().arg("update"))
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-qq").env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    command
}

/// Puts a package's files under `<tools>/deb/<name>`.
fn unpack(name: &str) -> anyhow::Result<()> {
    let into = layout::tools().join("deb").join(name);
    if into.is_dir() {
        return Ok(());
    }
    println!("   unpacking {name}");
    let fetched = layout::tools().join("deb/.fetch");
    std::fs::create_dir_all(&fetched)?;
    if download(name, &fetched).is_err() {
        update()?;
        download(name, &fetched)?;
    }
    let part = into.with_extension("part");
    for entry in std::fs::read_dir(&fetched)? {
        let path = entry?.path();
        process::run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&part))?;
        std::fs::remove_file(&path)?;
    }
    Ok(std::fs::rename(&part, &into)?)
}

fn download(name: &str, into: &Path) -> anyhow::Result<()> {
    // apt drops to a user that may not write here, and warns; it then fetches as root.
    process::run(apt().current_dir(into).args(["download", name]).stderr(Stdio::null()))
}
