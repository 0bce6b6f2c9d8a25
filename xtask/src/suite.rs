//! `cargo xtask test`: everything a change must pass, in stages.

use crate::counts::Counts;
use crate::stage::{Stage, Stages};
use crate::{deny, dist, layout, peers, process, tidy};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const TOOLS: Stage = Stage::minutes("tools", 8);
const HOUSE: Stage = Stage::minutes("house rules", 2);
const BUILD: Stage = Stage::minutes("build", 12);
const UNIT: Stage = Stage::minutes("unit", 3);
/// The shipped programs and their sizes, in runs of everything.
const SHIPPED: Stage = Stage::minutes("shipped programs", 20);
const END_TO_END: Stage = Stage::minutes("end to end", 20);
/// The end-to-end stage with the long runs.
const LONG: Stage = Stage::minutes("end to end, all", 90);

/// `cargo xtask test [--all] [filter ...]`.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let all = args.iter().any(|arg| arg == "--all");
    let filters: Vec<&String> = args.iter().filter(|arg| *arg != "--all").collect();
    let mut stages = Stages::new();
    let mut counts = Counts::default();
    stages.run(&TOOLS, || peers::run(if all { &args[..1] } else { &[] }));
    // The build comes first, so that a broken tree says so once.
    if stages.run(&BUILD, build).is_some() {
        stages.run(&HOUSE, house);
        stages.run(&UNIT, || tested(&mut test(), &mut counts));
        if all {
            stages.run(&SHIPPED, || dist::run(&[]));
        }
        let stage = if all { &LONG } else { &END_TO_END };
        stages.run(stage, || tested(&mut end_to_end(all, &filters), &mut counts));
    }
    stages.summary();
    let well = stages.all_well();
    if !well && counts.failed == 0 {
        // A stage that is no test failed: the closing line must not look like success.
        counts.failed += 1;
    }
    println!("\n{counts}");
    if well { Ok(()) } else { bail!("not everything passed; see the stages above") }
}

/// Formatting, arrows and walls, lints, licences.
fn house() -> anyhow::Result<()> {
    process::run(process::cargo("fmt").args(["--all", "--check"]))?;
    tidy::run()?;
    lints(&["--all-targets"])?;
    // Targets that are asked for by name are not among all.
    lints(&PROGRAMS)?;
    deny::run()
}

fn lints(targets: &[&str]) -> anyhow::Result<()> {
    let mut clippy = process::cargo("clippy");
    clippy.args(["--quiet", "--release", "--workspace"]).args(targets);
    process::run(clippy.args(["--", "-D", "warnings"]))
}

/// Product and tests in one go, so that the stages after it only run: a build of the programs alone would compile
/// everything twice, since the tests' own dependencies switch on features of shared crates.
fn build() -> anyhow::Result<()> {
    process::run(test().args(["--no-run", "--quiet"]))?;
    process::run(test().args(PROGRAMS).args(["--no-run", "--quiet"]))
}

/// Tests of the whole workspace, always: for a part of it cargo would switch on other features and build it again.
fn test() -> Command {
    let mut command = process::cargo("test");
    command.args(["--release", "--workspace", "--no-fail-fast"]);
    command
}

/// The end-to-end tests, which run only where they are named.
const PROGRAMS: [&str; 4] = ["--test", "e2e", "--test", "oci"];

/// The product's end-to-end tests.
fn end_to_end(all: bool, filters: &[&String]) -> Command {
    let mut command = test();
    command.args(PROGRAMS).arg("--").args(filters);
    command.env("BERTH_E2E_TOOLS", layout::tools());
    if all {
        command.env("BERTH_E2E_ALL", "1");
    }
    command
}

/// Runs tests, shows their output and adds what they say to the run's counts.
fn tested(command: &mut Command, all: &mut Counts) -> anyhow::Result<()> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("no output to read")?;
    let mut counts = Counts::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        match Counts::in_line(&line) {
            Some(found) => counts.add(found),
            None if quiet(&line) => {}
            None => println!("{line}"),
        }
    }
    let status = child.wait()?;
    println!("   {counts}");
    all.add(counts);
    match counts {
        Counts { failed: 1.., .. } => {
            bail!("{} of {} tests failed", counts.failed, counts.failed + counts.passed)
        }
        _ if !status.success() => bail!("the tests ended with {status}"),
        Counts { passed: 0, .. } => bail!("no test ran"),
        _ => Ok(()),
    }
}

/// Lines that say nothing: each passing unit test, and empty ones.
fn quiet(line: &str) -> bool {
    line.is_empty()
        || line.starts_with("running ")
        || (line.starts_with("test ") && line.ends_with(" ... ok"))
}
