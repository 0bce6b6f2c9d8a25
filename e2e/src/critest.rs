//! critest, the suite by which runtimes are judged: run against a node, its report read.

use crate::node::Node;
use crate::{check, paths};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

/// How one spec ended: passed, failed, skipped.
pub type Results = BTreeMap<String, String>;

/// The names of the specs that ended so.
pub fn of<'a>(results: &'a Results, kind: &str) -> Vec<&'a str> {
    results.iter().filter(|(_, result)| *result == kind).map(|(name, _)| name.as_str()).collect()
}

/// Runs the suite, or the specs whose names match `focus`, and reads its report.
pub async fn run(node: &Node, focus: Option<&str>) -> Result<Results> {
    let endpoint = format!("unix://{}", node.socket().display());
    let reports = node.dir().join("critest");
    std::fs::create_dir_all(&reports)?;
    let output = std::fs::File::create(node.dir().join("critest.log"))?;
    let parallel = std::env::var("BERTH_E2E_CRITEST_PARALLEL").unwrap_or_else(|_| "2".to_owned());
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(paths::peer("critest")?);
    command.args(["--runtime-endpoint", &endpoint, "--image-endpoint", &endpoint]);
    let report = reports.join("report.xml");
    command.args(["--parallel", &parallel]).arg(format!("--ginkgo.junit-report={}", report.display()));
    command.arg("--ginkgo.no-color");
    if let Some(focus) = focus {
        command.arg(format!("--ginkgo.focus={focus}"));
    }
    // It puts a link to itself into the current folder, and calls ginkgo by name.
    command.current_dir(&reports).env("PATH", format!("{}:{path}", paths::tools().display()));
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
    let status = command.status().await.context("critest")?;
    let results = read(&report).unwrap_or_default();
    let log = std::fs::read_to_string(node.dir().join("critest.log"))?;
    keep(&log);
    for line in log.lines().filter(|line| line.trim_start().starts_with("[FAILED]")) {
        println!("critest: {}", line.trim());
    }
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
