//! Where things are: the workspace root, the ignored cache, the built binaries.

use std::path::{Path, PathBuf};

/// The workspace root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Built peers and unpacked packages; ignored by git. `BERTH_E2E_TOOLS` moves it.
pub(crate) fn tools() -> PathBuf {
    match std::env::var_os("BERTH_E2E_TOOLS") {
        Some(dir) => PathBuf::from(dir),
        None => root().join(".cache/tools"),
    }
}

/// The folder that cargo puts this profile's binaries in: the one this program runs from.
pub(crate) fn binaries() -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let dir = exe.parent().map(Path::to_path_buf);
    dir.ok_or_else(|| anyhow::anyhow!("{} has no parent folder", exe.display()))
}

/// Every `.rs` file of the workspace's own crates, sorted.
pub(crate) fn rust_files() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(&root(), &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if name != "target" && !name.starts_with('.') {
                walk(&path, found)?;
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    Ok(())
}
