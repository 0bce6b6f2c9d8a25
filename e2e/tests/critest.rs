//! critest, the suite by which runtimes are judged: every spec in `critest/pass.txt` must pass, and that list may only
//! grow (`BERTH_E2E_GROW=1` adds what passes now).

use anyhow::Result;
use berth_e2e::critest::{of, run};
use berth_e2e::harness::Context;
use berth_e2e::samples::critest;
use berth_e2e::{check, paths, tests};
use std::path::PathBuf;

tests![; minutes 15 [specs]];

async fn specs(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    critest::serve(&bed.registry)?;
    for host in critest::HOSTS {
        bed.node.mirror(host, &bed.registry)?;
    }
    let focus = std::env::var("BERTH_E2E_CRITEST_FOCUS").ok();
    let results = run(&bed.node, focus.as_deref()).await?;
    let listed = std::fs::read_to_string(list())?;
    let wanted: Vec<&str> = listed.lines().filter(|line| !line.starts_with('#')).collect();
    let (passed, failed) = (of(&results, "passed"), of(&results, "failed"));
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
