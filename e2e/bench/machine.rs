//! The machine and the moment: figures mean little without them.

use crate::side::Side;
use berth_e2e::node::hierarchies;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Facts as lines of a list, with the versions of the sides' daemons.
pub(crate) async fn describe(sides: &[Side]) -> anyhow::Result<Vec<String>> {
    let mut facts = facts(&sides[0].node.tag().name())?;
    for side in sides {
        let version = side.cri.clone().version().await?;
        facts.push(format!("{}: {} {}", side.name, version.runtime_name, version.runtime_version));
    }
    Ok(facts)
}

/// Facts of the machine and the moment; `name` is that of cgroups that nobody else uses.
pub(crate) fn facts(name: &str) -> anyhow::Result<Vec<String>> {
    let mut facts = vec![
        format!("kernel {}", read("/proc/sys/kernel/osrelease")),
        format!("{} CPUs, {}", std::thread::available_parallelism()?, model()),
        cgroups(),
        format!("one cgroup move after 300 ms idle: {:.1} ms (median of 7)", cgroup_move(name)?),
    ];
    let load = read("/proc/loadavg");
    facts.push(format!("load average when begun: {}", load.split(' ').next().unwrap_or("?")));
    Ok(facts)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn model() -> String {
    let info = read("/proc/cpuinfo");
    let line = info.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(": ")).map_or("?".to_owned(), |(_, name)| name.to_owned())
}

/// v1, hybrid or v2, and whether moves are the quick kind.
fn cgroups() -> String {
    let roots = hierarchies();
    let unified = roots.iter().any(|root| root.join("cgroup.controllers").exists());
    let mode = match (unified, roots.len()) {
        (true, 1) => "v2",
        (true, _) => "hybrid (v1 controllers beside an almost empty v2 tree)",
        (false, _) => "v1",
    };
    let dynamic = read("/proc/mounts").lines().any(|line| line.contains("favordynmods"));
    format!("cgroups: {mode}, favordynmods {}", if dynamic { "on" } else { "off" })
}

/// Milliseconds to move one process into a fresh cgroup after a pause.
fn cgroup_move(name: &str) -> anyhow::Result<f64> {
    let roots = hierarchies();
    let Some(root) = roots.iter().find(|root| !root.ends_with("cpuset")) else { return Ok(0.0) };
    let mut child = Command::new("sleep").arg("60").spawn()?;
    let mut times = Vec::new();
    for number in 0..7 {
        let dir = root.join(name).join(format!("move{number}"));
        fs::create_dir_all(&dir)?;
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        fs::write(dir.join("cgroup.procs"), child.id().to_string())?;
        times.push(begun.elapsed());
    }
    child.kill()?;
    child.wait()?;
    for number in 0..7 {
        let dir: &Path = &root.join(name).join(format!("move{number}"));
        fs::remove_dir(dir)?;
    }
    times.sort_unstable();
    Ok(times[3].as_secs_f64() * 1000.0)
}
