//! What goes into the guest: files, through a raw disk that holds a tar.

use crate::paths;
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The raw disk's file, of a size that stays: the guest has seen it.
pub(super) const FILE: &str = "files.raw";
const SIZE: u64 = 1 << 30;

/// Where the guest has the product and the test programs.
pub const BIN: &str = "/opt/berth/bin";
/// Where the guest has the peers, as `BERTH_E2E_TOOLS`.
pub const TOOLS: &str = "/opt/berth/tools";

/// What unpacks it in the guest. Nothing of the disk may come from the guest's cache: it was written from outside.
pub(super) const UNPACK: &str = "set -e -o pipefail\nblockdev --flushbufs /dev/vdb\nmkdir -p /opt/berth\n\
    dd if=/dev/vdb iflag=direct bs=1M status=none 2>/dev/null | tar -x -C / || [ ${PIPESTATUS[1]} = 0 ]\n";

/// An empty disk.
pub(super) fn blank(dir: &Path) -> anyhow::Result<()> {
    Ok(fs::File::create(dir.join(FILE))?.set_len(SIZE)?)
}

/// Puts files onto the disk, each under its absolute path in the guest.
pub(super) fn write(dir: &Path, files: &[(PathBuf, PathBuf)]) -> anyhow::Result<()> {
    let stage = dir.join("stage");
    for (from, to) in files {
        let link = stage.join(to.strip_prefix("/").unwrap_or(to));
        fs::create_dir_all(link.parent().unwrap_or(&stage))?;
        std::os::unix::fs::symlink(
            fs::canonicalize(from).with_context(|| from.display().to_string())?,
            &link,
        )?;
    }
    let archive = dir.join("files.tar");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--dereference", "--owner=0", "--group=0", "--sparse"]);
    let status = tar.arg("--file").arg(&archive).arg("--directory").arg(&stage).arg(".").status()?;
    fs::remove_dir_all(&stage)?;
    if !status.success() || fs::metadata(&archive)?.len() > SIZE {
        bail!("{tar:?} ended with {status}, or it is larger than the disk");
    }
    // In place: QEMU has the file open.
    let mut disk = fs::File::options().write(true).open(dir.join(FILE))?;
    std::io::copy(&mut fs::File::open(&archive)?, &mut disk)?;
    Ok(fs::remove_file(&archive)?)
}

/// The product, this test program and its neighbour, and the peers that tests in the guest use.
pub(super) fn usual() -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    let bin = |name: &str| Path::new(BIN).join(name);
    let mut files = Vec::new();
    for name in ["berthd", "berth-shim"] {
        files.push((paths::product(name)?, bin(name)));
    }
    files.push((paths::product("berth-shim")?, bin("berth-oci")));
    for name in ["e2e", "oci"] {
        files.push((program(name)?, bin(name)));
    }
    for name in ["crictl", "cni", "deb/busybox-static", "deb/busybox"] {
        files.push((paths::peer(name)?, Path::new(TOOLS).join(name)));
    }
    if let Ok(runc) = paths::peer("runc") {
        files.push((runc, Path::new(TOOLS).join("runc")));
    }
    files.push((paths::root().join("systemd/berthd.service"), "/etc/systemd/system/berthd.service".into()));
    Ok(files)
}

/// A test program that was built beside this one: `<name>-<hash>`, the newest.
fn program(name: &str) -> anyhow::Result<PathBuf> {
    let me = std::env::current_exe()?;
    let folder = me.parent().context("this program has no folder")?;
    let entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let prefix = format!("{name}-");
    let mine = |path: &PathBuf| {
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        file.strip_prefix(&prefix).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let modified = |path: &PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let found = entries.filter(mine).max_by_key(modified);
    found.with_context(|| format!("no test program {name} in {}", folder.display()))
}
