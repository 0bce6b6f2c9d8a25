//! Where the built product and the built peers are.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// A program of the product, such as `berthd`: in `BERTH_E2E_BIN`, or where cargo put this program.
pub fn product(name: &str) -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe().context("the path of this program")?;
    let mut folders: Vec<PathBuf> = exe.ancestors().skip(1).take(2).map(Path::to_path_buf).collect();
    if let Some(dir) = std::env::var_os("BERTH_E2E_BIN") {
        folders = vec![PathBuf::from(dir)];
    }
    find(name, &folders, "cargo build --release --bins")
}

/// A built peer, such as `crictl`: see `cargo xtask tools`.
pub fn peer(name: &str) -> anyhow::Result<PathBuf> {
    find(name, &[tools()], "cargo xtask tools --all")
}

/// The folder of built peers and unpacked packages.
pub fn tools() -> PathBuf {
    match std::env::var_os("BERTH_E2E_TOOLS") {
        Some(dir) => PathBuf::from(dir),
        None => root().join(".cache/tools"),
    }
}

/// A file of a Debian package that was unpacked but not installed.
pub fn package_file(package: &str, path: &str) -> anyhow::Result<PathBuf> {
    find(path, &[tools().join("deb").join(package)], "cargo xtask tools")
}

/// The workspace root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn find(name: &str, folders: &[PathBuf], remedy: &str) -> anyhow::Result<PathBuf> {
    for folder in folders {
        let path = folder.join(name);
        if path.exists() {
            return Ok(path);
        }
    }
    let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    bail!("{name} is not in {}; run: {remedy}", looked.join(" nor "))
}
