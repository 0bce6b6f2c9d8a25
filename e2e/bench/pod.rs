//! One pod of one container, again and again; then many at one time.

mod memory;
mod rounds;

use crate::side::{Network, Side};
use crate::table::{self, Table, millis};
use crate::timing::Samples;
use crate::{machine, numbers};
use anyhow::Context;
use berth_e2e::node::Runtime;
use memory::Memory;

/// How much is measured.
pub(crate) struct Size {
    /// Rounds of one pod each.
    rounds: usize,
    /// Pods at one time for the memory figures.
    pods: usize,
}

const TIMES: [&str; 10] = [
    "pod + container to running",
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "ExecSync `true` above an empty call",
    "stop and remove all",
    "StopContainer, no grace",
    "StopPodSandbox",
    "RemoveContainer",
    "RemovePodSandbox",
];

impl Size {
    /// `--rounds N --pods N`.
    pub(crate) fn read(args: &[String]) -> anyhow::Result<Self> {
        let mut size = Self { rounds: 30, pods: 30 };
        numbers(args, [("--rounds", &mut size.rounds), ("--pods", &mut size.pods)])?;
        Ok(size)
    }
}

/// Measures, and gives the section.
pub(crate) async fn run(size: &Size) -> anyhow::Result<String> {
    let sides = [
        Side::start("containerd, host network", Runtime::Containerd, Network::Host).await?,
        Side::start("Berth, host network", Runtime::Berth, Network::Host).await?,
        Side::start("Berth, built-in network", Runtime::Berth, Network::Builtin).await?,
    ];
    let text = measure(size, &sides).await;
    Side::finish(&sides).await;
    text
}

async fn measure(size: &Size, sides: &[Side]) -> anyhow::Result<String> {
    let facts = machine::describe(sides).await?;
    println!("{size} rounds of one pod, each side in turn", size = size.rounds);
    let rounds = rounds::run(sides, size.rounds).await?;
    println!("{} pods at one time", size.pods);
    let mut memory = Vec::new();
    for side in sides {
        memory.push(memory::run(side, size.pods).await.with_context(|| side.name.to_owned())?);
    }
    Ok(text(size, sides, &facts, &rounds, &memory))
}

fn text(size: &Size, sides: &[Side], facts: &[String], rounds: &[Samples], memory: &[Memory]) -> String {
    let names = || sides.iter().map(|side| side.name);
    let mut times = Table::new(names());
    TIMES.iter().for_each(|name| times.times(name, &rounds.iter().collect::<Vec<_>>()));
    let mut many = Table::new(names());
    let mut row = |name, of: fn(&Memory) -> f64| {
        many.figures(name, 1, &memory.iter().map(|memory| Some(of(memory))).collect::<Vec<_>>());
    };
    row("monitors per pod, KiB PSS", |m| m.monitors);
    row("daemon, MiB PSS", |m| m.daemon as f64 / 1024.0);
    row("kill -9 to all pods listed again, ms", |m| millis(m.restart));
    row("list all pods, ms", |m| millis(m.list));
    format!(
        "## Pods\n\nOne pod of one container at a time, {} rounds, then {} pods at one time. Each side talks CRI to its \
         own daemon.\n\n    cargo xtask bench pod\n\n{}\n{}\n{}",
        size.rounds,
        size.pods,
        table::list(facts),
        times.text(),
        many.text()
    )
}
