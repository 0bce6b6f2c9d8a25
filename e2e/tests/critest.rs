//! critest, the suite by which runtimes are judged: every spec in `critest/pass.txt` must pass, and that list may only
//! grow (`BERTH_E2E_GROW=1` adds what passes now).

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context};
use berth_e2e::samples::critest;
use berth_e2e::{check, paths, tests};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

tests![; minutes 15 [specs]];

/// How one spec ended: passed, failed, skipped.
type Results = BTreeMap<String, String>;

async fn specs(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    critest::serve(&bed.registry)?;
    for host in critest::HOSTS {
        bed.node.mirror(host, &bed.registry)?;
    }
    let results = run(&bed).await?;
    let listed = std::fs::read_to_string(list())?;
    let wanted: Vec<&str> = listed.lines().filter(|line| !line.starts_with('#')).collect();
    let of = |kind: &str| {
        results.iter().filter(|(_, r)| *r == kind).map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let (passed, failed) = (of("passed"), of("failed"));
    println!("critest: {} passed, {} failed, of {}", passed.len(), failed.len(), results.len());
    let new: Vec<&str> = passed.iter().copied().filter(|name| !wanted.contains(name)).collect();
    failed.iter().for_each(|name| println!("critest: failed: {name}"));
    new.iter().for_each(|name| println!("critest: passes and is not listed: {name}"));
    if std::env::var_os("BERTH_E2E_GROW").is_some() {
        grow(&listed, &new)?;
    }
    let lost: Vec<&str> = wanted.into_iter().filter(|name| !passed.contains(name)).collect();
    check!(lost.is_empty(), "no longer pass:\n{}", lost.join("\n"));
    Ok(())
}

fn list() -> PathBuf {
    paths::root().join("e2e/critest/pass.txt")
}

fn grow(listed: &str, new: &[&str]) -> Result<()> {
    let head: Vec<&str> = listed.lines().filter(|line| line.starts_with('#')).collect();
    let mut all: Vec<&str> =
        listed.lines().filter(|line| !line.starts_with('#')).chain(new.iter().copied()).collect();
    all.sort_unstable();
    Ok(std::fs::write(list(), format!("{}\n{}\n", head.join("\n"), all.join("\n")))?)
}

/// Runs the suite and reads its report.
async fn run(bed: &Bed) -> Result<Results> {
    let endpoint = format!("unix://{}", bed.node.socket().display());
    let reports = bed.node.dir().join("critest");
    std::fs::create_dir_all(&reports)?;
    let output = std::fs::File::create(bed.node.dir().join("critest.log"))?;
    let parallel = std::env::var("BERTH_E2E_CRITEST_PARALLEL").unwrap_or_else(|_| "2".to_owned());
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(paths::peer("critest")?);
    command.args(["--runtime-endpoint", &endpoint, "--image-endpoint", &endpoint]);
    let report = reports.join("report.xml");
    command.args(["--parallel", &parallel]).arg(format!("--ginkgo.junit-report={}", report.display()));
    command.arg("--ginkgo.no-color");
    if let Ok(focus) = std::env::var("BERTH_E2E_CRITEST_FOCUS") {
        command.arg(format!("--ginkgo.focus={focus}"));
    }
    // It puts a link to itself into the current folder, and calls ginkgo by name.
    command.current_dir(&reports).env("PATH", format!("{}:{path}", paths::tools().display()));
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
    let status = command.status().await.context("critest")?;
    let results = read(&report).unwrap_or_default();
    let log = std::fs::read_to_string(bed.node.dir().join("critest.log"))?;
    keep(&log);
    check!(!results.is_empty(), "critest ended with {status} and no report:\n{}", tail(&log));
    Ok(results)
}

/// The suite's own output outlives the node where somebody asks for it.
fn keep(log: &str) {
    if let Some(path) = std::env::var_os("BERTH_E2E_CRITEST_LOG") {
        // Only a convenience: the report is what counts.
        let _ = std::fs::write(path, log);
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// The specs in a JUnit report.
fn read(report: &Path) -> Result<Results> {
    let text = std::fs::read_to_string(report)?;
    Ok(text.split("<testcase ").skip(1).filter_map(case).collect())
}

/// `name="[It] …" … status="passed"`; nodes that are no specs are left out.
fn case(text: &str) -> Option<(String, String)> {
    let head = text.split_once('>')?.0;
    let of = |key: &str| Some(head.split_once(&format!("{key}=\""))?.1.split_once('"')?.0);
    let name = of("name")?.strip_prefix("[It] ")?;
    let name =
        name.replace("&#34;", "\"").replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&");
    let name = name.replace("&gt;", ">").replace("&lt;", "<");
    let status = match of("status")? {
        "passed" => "passed",
        "skipped" | "pending" => "skipped",
        _ => "failed",
    };
    Some((name, status.to_owned()))
}
