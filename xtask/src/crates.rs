//! Peers that are Rust programs, installed once from their pinned crates into the ignored cache.

use crate::{layout, process};
use anyhow::Context;
use std::fs;

/// Name, version, features.
const CRATES: [(&str, &str, &str); 1] = [("youki", "0.7.0", "v1,v2,systemd,seccomp")];

/// Installs what is missing.
pub(crate) fn run() -> anyhow::Result<()> {
    CRATES.into_iter().try_for_each(|(name, version, features)| {
        install(name, version, features).with_context(|| format!("installing {name} {version}"))
    })
}

fn install(name: &str, version: &str, features: &str) -> anyhow::Result<()> {
    let out = layout::tools();
    let (stamp, wanted) = (out.join(format!(".{name}.stamp")), format!("{version} {features}\n"));
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let folder = out.join(format!(".{name}"));
    let mut cargo = process::cargo("install");
    cargo.args(["--quiet", "--locked", "--no-default-features", "--features", features]);
    cargo.args(["--version", version, name, "--root"]).arg(&folder);
    // A folder of its own: its dependencies are not ours.
    cargo.env("CARGO_TARGET_DIR", folder.join("target"));
    process::run(&mut cargo)?;
    fs::copy(folder.join("bin").join(name), out.join(name))?;
    fs::remove_dir_all(&folder)?;
    Ok(fs::write(&stamp, wanted)?)
}
