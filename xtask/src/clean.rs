//! `cargo xtask clean`: takes down what killed test runs left behind, by the names that tests use.

use crate::{layout, process};
use anyhow::bail;
use std::process::Command;

/// Hands over to the harness, which knows its own names.
pub(crate) fn run() -> anyhow::Result<()> {
    if !process::is_root() {
        bail!("leftovers of tests belong to root: run it as root");
    }
    process::run(process::cargo("build").args(["--quiet", "--release", "--package", "berth-e2e"]))?;
    process::run(Command::new(layout::binaries()?.join("berth-demo")).arg("--clean"))
}
