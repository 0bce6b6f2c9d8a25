//! A full node: many pods over the same CNI configuration, several at a time, all of them running at the end.

mod fill;
mod look;

use crate::side::{Network, Side};
use crate::table::{self, Table, millis};
use crate::timing::Samples;
use crate::{machine, numbers};
use berth_e2e::node::Runtime;
use fill::Filled;
use look::Looked;

/// How much is measured.
pub(crate) struct Size {
    /// Pods at the end.
    pods: usize,
    /// Of them at a time.
    at_once: usize,
}

const TIMES: [&str; 4] = [fill::RUNNING, "RunPodSandbox", "CreateContainer", "StartContainer"];

impl Size {
    /// `--pods N --at-once N`.
    pub(crate) fn read(args: &[String]) -> anyhow::Result<Self> {
        let mut size = Self { pods: 120, at_once: 8 };
        numbers(args, [("--pods", &mut size.pods), ("--at-once", &mut size.at_once)])?;
        anyhow::ensure!(
            size.at_once > 0 && size.pods >= 4 * size.at_once,
            "at least four batches are needed"
        );
        Ok(size)
    }
}

/// Measures, and gives the section.
pub(crate) async fn run(size: &Size) -> anyhow::Result<String> {
    let sides = [
        Side::start("containerd, CNI", Runtime::Containerd, Network::Cni).await?,
        Side::start("Berth, CNI", Runtime::Berth, Network::Cni).await?,
        Side::start("Berth, built-in network", Runtime::Berth, Network::Builtin).await?,
    ];
    let text = measure(size, &sides).await;
    Side::finish(&sides).await;
    text
}

async fn measure(size: &Size, sides: &[Side]) -> anyhow::Result<String> {
    let facts = machine::describe(sides).await?;
    println!("{} pods, {} at a time, one side after the other", size.pods, size.at_once);
    let (mut filled, mut looked, mut emptied) = (Vec::new(), Vec::new(), Vec::new());
    for side in sides {
        let full = fill::fill(side, size.pods, size.at_once).await?;
        looked.push(look::at(side, &full).await?);
        emptied.push(fill::empty(side, &full, size.at_once).await?);
        filled.push(full);
    }
    Ok(text(size, sides, &facts, &filled, &looked, &emptied))
}

fn text(
    size: &Size,
    sides: &[Side],
    facts: &[String],
    filled: &[Filled],
    looked: &[Looked],
    emptied: &[Samples],
) -> String {
    let names = || sides.iter().map(|side| side.name);
    let mut start = Table::new(names());
    let samples: Vec<&Samples> = filled.iter().map(|filled| &filled.samples).collect();
    TIMES.iter().for_each(|name| start.times(name, &samples));
    let mut row = |name: &str, of: &dyn Fn(&Filled) -> f64| {
        start.figures(name, 1, &filled.iter().map(|filled| Some(of(filled))).collect::<Vec<_>>());
    };
    row("to running, first quarter of the pods", &|f| millis(f.quarter(0)));
    row("to running, second quarter", &|f| millis(f.quarter(1)));
    row("to running, third quarter", &|f| millis(f.quarter(2)));
    row("to running, last quarter", &|f| millis(f.quarter(3)));
    row("all pods running, s", &|f| f.whole.as_secs_f64());
    emptied_rows(&mut start, emptied);
    let mut full = Table::new(names());
    let samples: Vec<&Samples> = looked.iter().map(|looked| &looked.samples).collect();
    look::NAMES.iter().for_each(|name| full.times(name, &samples));
    let mut row = |name, of: fn(&Looked) -> f64| {
        full.figures(name, 1, &looked.iter().map(|looked| Some(of(looked))).collect::<Vec<_>>());
    };
    row("daemon, MiB PSS", |l| l.daemon_mib);
    row("daemon at rest, CPU ms in 10 s", |l| l.cpu_ms);
    format!(
        "## A full node\n\n{} pods of one container, {} at a time; each side in turn has the machine, whole and empty, for \
         itself. The CNI sides have the same configuration (bridge, host-local, portmap) and the same plugins. At the end every pod was ready and \
         every container running on every side.\n\n    cargo xtask bench node\n\n{}\n{}\nWith all pods there:\n\n{}",
        size.pods,
        size.at_once,
        table::list(facts),
        start.text(),
        full.text()
    )
}

fn emptied_rows(table: &mut Table, emptied: &[Samples]) {
    let samples: Vec<&Samples> = emptied.iter().collect();
    table.times(fill::REMOVED, &samples);
}
