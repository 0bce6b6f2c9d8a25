//! The low-level runtime by itself: a container of `true` from create to delete, and an exec, beside other runtimes.

mod inside;
pub(crate) mod laps;

use crate::table::{self, Table};
use crate::timing::Samples;
use crate::{machine, numbers};
use anyhow::Context;
use berth_e2e::bundle::Runtime;
use berth_e2e::leak::remove_cgroup;
use berth_e2e::node::hierarchies;
use berth_e2e::tag::Tag;

/// How much is measured.
pub(crate) struct Size {
    /// Rounds of one container each.
    rounds: usize,
    /// Peers that are left out.
    without: Vec<String>,
}

/// Where the containers run, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// With the hierarchies that this machine has, and limits.
    Here,
    /// Where only the unified hierarchy is visible, without limits: there every peer runs.
    Unified,
}

impl Mode {
    /// Who runs there; the first is the best known.
    fn runtimes(self, size: &Size) -> Vec<Runtime> {
        let all: &[Runtime] = match self {
            Self::Here => &[Runtime::Runc, Runtime::Youki, Runtime::Berth],
            Self::Unified => &[Runtime::Crun, Runtime::Runc, Runtime::Youki, Runtime::Berth],
        };
        all.iter()
            .copied()
            .filter(|runtime| !size.without.iter().any(|name| name == runtime.name()))
            .collect()
    }
}

impl Size {
    /// `--rounds N`, `--without NAME`.
    pub(crate) fn read(args: &[String]) -> anyhow::Result<Self> {
        let mut size = Self { rounds: 40, without: Vec::new() };
        let mut rest = args.to_vec();
        while let Some(at) = rest.iter().position(|arg| arg == "--without") {
            size.without.extend(rest.drain(at..(at + 2).min(rest.len())).skip(1));
        }
        numbers(&rest, [("--rounds", &mut size.rounds)])?;
        Ok(size)
    }
}

/// Measures, and gives the section.
pub(crate) fn run(size: &Size) -> anyhow::Result<String> {
    if berth_e2e::world::is_inside() {
        return tables(size, Mode::Unified);
    }
    let tag = Tag::next();
    let facts = machine::facts(&tag.name());
    hierarchies().iter().for_each(|root| remove_cgroup(&root.join(tag.name())));
    let mut facts = facts?;
    for runtime in Mode::Unified.runtimes(size) {
        facts.push(version(runtime)?);
    }
    println!("{} rounds with what this machine has", size.rounds);
    let here = tables(size, Mode::Here)?;
    println!("{} rounds where only the unified hierarchy is visible", size.rounds);
    let unified = inside::run(size)?;
    Ok(format!(
        "## The low-level runtime\n\nA container of `true` by each runtime's command line: its own PID, mount, network, IPC, \
         UTS and cgroup namespaces, the default Kubernetes seccomp profile and capabilities, masked and read-only paths. The \
         runtimes keep their state and the pid file in memory, as below /run on a node. {} rounds, the runtimes in turn.\n\n    cargo xtask bench runtime\n\n{}\nWith limits of memory, CPU and processes, in \
         the hierarchies of this machine:\n\n{here}\nWhere only the unified hierarchy is visible, without limits:\n\n{unified}",
        size.rounds,
        table::list(&facts)
    ))
}

fn version(runtime: Runtime) -> anyhow::Result<String> {
    let output = runtime.command()?.arg("--version").output().with_context(|| runtime.name())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let program = runtime.program()?;
    let size = std::fs::metadata(&program)?.len() as f64 / 1e6;
    Ok(format!("{}, {size:.2} MB on disk", said.lines().next().unwrap_or("?")))
}

fn tables(size: &Size, mode: Mode) -> anyhow::Result<String> {
    let runtimes = mode.runtimes(size);
    let all = laps::run(&runtimes, size.rounds, mode == Mode::Here)?;
    let mut table = Table::new(runtimes.iter().map(|runtime| runtime.name()));
    let samples: Vec<&Samples> = all.iter().map(|laps| &laps.samples).collect();
    laps::NAMES.iter().for_each(|name| table.times(name, &samples));
    let mut row = |name: &str, of: fn(&laps::Laps) -> f64| {
        table.figures(name, 1, &all.iter().map(|laps| Some(of(laps))).collect::<Vec<_>>());
    };
    row("create, peak RSS MiB", |laps| laps.create_rss);
    row("start, peak RSS MiB", |laps| laps.start_rss);
    row("delete, peak RSS MiB", |laps| laps.delete_rss);
    row("exec, peak RSS MiB", |laps| laps.exec_rss);
    Ok(table.text())
}
