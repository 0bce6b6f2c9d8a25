//! `cargo xtask bench SUBJECT`: Berth beside its peers, in turn, on one machine in one sitting.

mod machine;
mod node;
mod pod;
mod report;
mod runtime;
mod side;
mod table;
mod timing;
mod trace;

use anyhow::{Context, bail};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((subject, rest)) = args.split_first() else { bail!("bench what? pod, node, runtime or trace") };
    if !rustix::process::geteuid().is_root() {
        bail!("container runtimes are started: run it as root");
    }
    let mut tokio = tokio::runtime::Builder::new_multi_thread();
    let tokio = tokio.worker_threads(2).enable_all().build()?;
    let text = match subject.as_str() {
        "pod" => tokio.block_on(pod::run(&pod::Size::read(rest)?))?,
        "node" => tokio.block_on(node::run(&node::Size::read(rest)?))?,
        "runtime" => runtime::run(&runtime::Size::read(rest)?)?,
        "trace" => trace::run(rest)?,
        other => bail!("bench what? pod, node, runtime or trace, not {other:?}"),
    };
    println!("\n{text}");
    if let Some(path) = std::env::var_os("BERTH_E2E_REPORT") {
        match subject.as_str() {
            // A page of its own.
            "trace" => std::fs::write(&path, &text)?,
            subject => report::put(path.as_ref(), subject, &text)?,
        }
        println!("written to {}", std::path::Path::new(&path).display());
    }
    Ok(())
}

/// Reads `--name N` for each of the names that a subject knows.
fn numbers<const N: usize>(args: &[String], known: [(&str, &mut usize); N]) -> anyhow::Result<()> {
    let mut known = known;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        let place = known.iter_mut().find(|(name, _)| name == arg);
        let (_, place) = place.with_context(|| format!("{arg} is not one of {names}"))?;
        let value = args.next().with_context(|| format!("{arg} wants a number"))?;
        **place = value.parse().with_context(|| format!("{arg} {value:?}"))?;
    }
    Ok(())
}
