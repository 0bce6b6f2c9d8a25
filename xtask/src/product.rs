//! The demo and the benchmarks: programs of e2e, built with the product and run on it.

use crate::{dist, layout, peers, process};
use anyhow::bail;
use std::process::Command;

/// `cargo xtask demo [--keep]`.
pub(crate) fn demo(args: &[String]) -> anyhow::Result<()> {
    for arg in args {
        if arg != "--keep" {
            bail!("demo knows --keep only, not {arg:?}");
        }
    }
    need_root("The demo makes namespaces, mounts, cgroups and a bridge")?;
    peers::run(&["critools".to_owned()])?;
    build()?;
    let program = layout::binaries()?.join("berth-demo");
    process::run(Command::new(program).args(args).env("BERTH_E2E_TOOLS", layout::tools()))
}

/// `cargo xtask bench SUBJECT …`: measured on the shipped profile.
pub(crate) fn bench(args: &[String]) -> anyhow::Result<()> {
    let (subject, rest) = args.split_first().map_or(("", args), |(subject, rest)| (subject.as_str(), rest));
    let wanted: &[&str] = match subject {
        "pod" => &["critools", "containerd", "runc"],
        "node" => &["critools", "containerd", "runc", "cni"],
        "runtime" | "trace" => &["runc"],
        _ => bail!("bench {subject:?}? There are: pod, node, runtime, trace"),
    };
    need_root("Benchmarks start container runtimes")?;
    peers::run(&wanted.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
    if subject == "runtime" {
        crate::apt::for_benchmarks()?;
        // Minutes of compiling on two cores.
        if !rest.iter().any(|arg| arg == "youki") {
            crate::crates::run()?;
        }
    }
    if subject == "trace" {
        crate::apt::need(&["strace"])?;
    }
    dist::build()?;
    process::run(process::cargo("build").args([
        "--quiet",
        "--profile",
        "dist",
        "--package",
        "berth-e2e",
        "--bins",
    ]))?;
    let report = if subject == "trace" { "docs/performance.md" } else { "BENCHMARKS.md" };
    let mut program = Command::new(dist::folder()?.join("berth-bench"));
    program.arg(subject).args(rest).env("BERTH_E2E_TOOLS", layout::tools());
    // Cargo's own: whatever is started would look for its libraries in four more places, as on no node.
    program.env_remove("LD_LIBRARY_PATH");
    process::run(program.env("BERTH_E2E_REPORT", layout::root().join(report)))
}

fn build() -> anyhow::Result<()> {
    process::run(process::cargo("build").args(["--quiet", "--release", "--bins"]).args([
        "--package",
        "berthd",
        "--package",
        "berth-shim",
        "--package",
        "berth-e2e",
    ]))
}

fn need_root(why: &str) -> anyhow::Result<()> {
    if process::is_root() {
        return Ok(());
    }
    bail!("{why}: that needs root. Run it again as root, for example `sudo -E cargo xtask …`")
}
