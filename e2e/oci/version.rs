//! Callers such as containerd and Docker read the version and the features before they call anything else.

use anyhow::Context as _;
use berth_e2e::harness::Context;
use berth_e2e::{check, paths, tests};
use serde_json::Value;
use tokio::process::Command;

tests![told];

async fn told(_context: Context) -> anyhow::Result<()> {
    let oci = |word: &'static str| async move {
        let program = paths::product("berth-shim")?;
        let output = Command::new(program).args(["oci", word]).output().await?;
        check!(output.status.success(), "{word}: {}", String::from_utf8_lossy(&output.stderr));
        anyhow::Ok(String::from_utf8(output.stdout)?)
    };
    let version = oci("--version").await?;
    check!(version.lines().any(|line| line.starts_with("spec: 1.")), "{version}");
    let features: Value = serde_json::from_str(&oci("features").await?)?;
    let max = features["ociVersionMax"].as_str().context("no ociVersionMax")?;
    check!(version.contains(&format!("spec: {max}")), "{version} beside {max}");
    Ok(())
}
