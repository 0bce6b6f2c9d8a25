//! `cargo xtask bench pod`: Berth beside containerd with runc, in turn, on one machine in one sitting.

mod machine;
mod memory;
mod report;
mod rounds;
mod side;
mod timing;

use anyhow::{Context, bail};
use report::Report;
use side::Side;
use std::process::ExitCode;

/// How much is measured.
struct Size {
    /// Rounds of one pod each.
    rounds: usize,
    /// Pods at one time for the memory figures.
    pods: usize,
}

fn main() -> ExitCode {
    let done = size().and_then(|size| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all().build()?.block_on(run(&size))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn size() -> anyhow::Result<Size> {
    let mut size = Size { rounds: 30, pods: 30 };
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("pod") => {}
        other => bail!("bench what? pod, not {other:?}"),
    }
    while let Some(arg) = args.next() {
        let value = args.next().with_context(|| format!("{arg} wants a number"))?;
        match arg.as_str() {
            "--rounds" => size.rounds = value.parse()?,
            "--pods" => size.pods = value.parse()?,
            other => bail!("bench pod knows --rounds and --pods, not {other}"),
        }
    }
    Ok(size)
}

async fn run(size: &Size) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("two container runtimes are started: run it as root");
    }
    let sides = Side::all().await?;
    let result = measure(size, &sides).await;
    for side in &sides {
        for problem in side.node.finish().await {
            eprintln!("{}: {problem}", side.name);
        }
    }
    let report = result?;
    let text = report.text();
    println!("\n{text}");
    if let Some(path) = std::env::var_os("BERTH_E2E_REPORT") {
        std::fs::write(&path, text)?;
        println!("written to {}", std::path::Path::new(&path).display());
    }
    Ok(())
}

async fn measure(size: &Size, sides: &[Side]) -> anyhow::Result<Report> {
    let machine = machine::describe(sides).await?;
    println!("{size} rounds of one pod, each side in turn", size = size.rounds);
    let rounds = rounds::run(sides, size.rounds).await?;
    println!("{} pods at one time", size.pods);
    let mut memory = Vec::new();
    for side in sides {
        memory.push(memory::run(side, size.pods).await.with_context(|| side.name.to_owned())?);
    }
    let names = sides.iter().map(|side| side.name).collect();
    Ok(Report { machine, names, rounds, memory, pods: size.pods })
}
