//! The real crictl, run against one node.

use crate::paths;
use anyhow::{Context, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tokio::process::Command;

/// crictl with a node's socket.
#[derive(Clone, Debug)]
pub struct Crictl {
    program: PathBuf,
    socket: String,
    config: PathBuf,
}

impl Crictl {
    /// For a socket; `dir` takes its configuration file, so that the host's own is not read.
    pub(crate) fn new(socket: &Path, dir: &Path) -> anyhow::Result<Self> {
        let config = dir.join("crictl.yaml");
        let socket = format!("unix://{}", socket.display());
        std::fs::write(&config, format!("runtime-endpoint: {socket}\nimage-endpoint: {socket}\n"))?;
        Ok(Self { program: paths::peer("crictl")?, socket, config })
    }

    /// The command line that a person would type.
    pub fn line(&self) -> String {
        format!("{} --runtime-endpoint {}", self.program.display(), self.socket)
    }

    /// What it prints; failing is an error with its words.
    pub async fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.output(args).await?;
        if !output.status.success() {
            bail!("crictl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What it prints with `-o json`, parsed.
    pub async fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        // Flags must stand before the first plain argument.
        let (verb, rest) = args.split_first().context("crictl without a verb")?;
        let text = self.run(&[&[*verb, "-o", "json"], rest].concat()).await?;
        serde_json::from_str(&text).with_context(|| format!("crictl {}: {text}", args.join(" ")))
    }

    /// Its words when it fails; succeeding is an error.
    pub async fn fails(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.output(args).await?;
        if output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout);
            bail!("crictl {} was to fail, but said {said:?}", args.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    async fn output(&self, args: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(&self.config).arg("--timeout=60s").args(args);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command.output().await.with_context(|| format!("crictl {}", args.join(" ")))
    }
}
