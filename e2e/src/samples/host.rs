//! Programs of Debian packages with the libraries they need, as files of a layer.

use crate::image::Layer;
use crate::paths;
use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Adds a program at a path, and its libraries once, at the paths where the loader looks.
pub(super) fn program(
    layer: Layer,
    from: &Path,
    to: &str,
    libraries: &mut BTreeSet<PathBuf>,
) -> anyhow::Result<Layer> {
    let bytes = std::fs::read(from).with_context(|| from.display().to_string())?;
    let mut layer = layer.file(to, 0o755, bytes);
    for library in needed(from)? {
        if libraries.insert(library.clone()) {
            let bytes = std::fs::read(&library).with_context(|| library.display().to_string())?;
            let path = library.to_string_lossy();
            layer = layer.file(path.trim_start_matches('/'), 0o755, bytes);
        }
    }
    Ok(layer)
}

/// The libraries and the loader that a program asks for.
fn needed(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("not found") {
        bail!("libraries of {} are missing on this host:\n{text}", program.display());
    }
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

/// The names of the applets of a busybox.
pub(super) fn applets(busybox: &Path) -> anyhow::Result<Vec<String>> {
    let output =
        Command::new(busybox).arg("--list").output().with_context(|| busybox.display().to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The dynamic busybox: unlike the static one it looks in PATH before its own applets.
pub(super) fn dynamic_busybox() -> anyhow::Result<PathBuf> {
    paths::package_file("busybox", "bin/busybox")
}
