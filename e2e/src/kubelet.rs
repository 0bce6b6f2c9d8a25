//! A real kubelet without a cluster: it runs static pods from a folder on one node, and serves its API on loopback.
//!
//! Two kubelets meet in ports, links, sysctls and fixed folders, hence [`place`]: each lives with its node in a
//! network and a mount namespace of its own.

mod api;
mod config;
pub mod place;

pub use api::Api;

use crate::node::{Node, remove_cgroup};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// The node's name; a static pod's name gets it as its end.
pub const NODE: &str = "n1";

/// A running kubelet; dropped, it is killed.
pub struct Kubelet {
    child: Child,
    program: PathBuf,
    dir: PathBuf,
    api: Api,
    cgroups: Vec<PathBuf>,
}

impl Kubelet {
    /// Starts a kubelet program on a node whose daemon answers, and waits until its API does.
    pub async fn start(node: &Node, program: &Path, gates: &[(&str, bool)]) -> Result<Self> {
        let dir = node.dir().join("kubelet");
        for name in ["manifests", "logs", "pki", "trace"] {
            std::fs::create_dir_all(dir.join(name))?;
        }
        std::fs::write(dir.join("config.json"), config::text(node, &dir, gates))?;
        let child = spawn(program, &dir)?;
        let api = Api::new(dir.join("pki/kubelet.crt"));
        let roots = node.cgroup().directories(&node.cgroup().child(""));
        let cgroups = roots.iter().map(|root| root.join("kubepods")).collect();
        let mut kubelet = Self { child, program: program.to_owned(), dir, api, cgroups };
        kubelet.wait_ready(Duration::from_secs(60)).await?;
        Ok(kubelet)
    }

    /// Ends it and starts it again; its pods go on.
    pub async fn restart(&mut self) -> Result<()> {
        self.end().await?;
        self.child = spawn(&self.program, &self.dir)?;
        self.wait_ready(Duration::from_secs(60)).await
    }

    async fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the kubelet ended with {status}\n{}", self.log_tail(30));
            }
            match self.api.get("/pods").await {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > limit => {
                    bail!("the kubelet does not answer: {error:#}\n{}", self.log_tail(30))
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// Puts or changes a static pod.
    pub fn put(&self, pod: &Value) -> Result<()> {
        let name = pod["metadata"]["name"].as_str().context("a pod without a name")?;
        // Renamed into place: the kubelet may look at any moment.
        let draft = self.dir.join("draft");
        std::fs::write(&draft, pod.to_string())?;
        Ok(std::fs::rename(draft, self.manifest(name))?)
    }

    /// Takes a static pod away, which deletes it.
    pub fn withdraw(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.manifest(name)).with_context(|| name.to_owned())
    }

    fn manifest(&self, name: &str) -> PathBuf {
        self.dir.join("manifests").join(format!("{name}.json"))
    }

    /// Its API.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// A pod as `/pods` shows it.
    pub async fn pod(&self, name: &str) -> Result<Option<Value>> {
        let all: Value = serde_json::from_str(&self.api.get("/pods").await?)?;
        let name = format!("{name}-{NODE}");
        let pods = all["items"].as_array().cloned().unwrap_or_default();
        Ok(pods.into_iter().find(|pod| pod["metadata"]["name"] == *name))
    }

    /// Waits until a pod is as wanted; its last state is told otherwise.
    pub async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let begun = Instant::now();
        loop {
            let pod = self.pod(name).await?.unwrap_or(Value::Null);
            if wanted(&pod) {
                return Ok(pod);
            }
            if begun.elapsed() > Duration::from_secs(90) {
                let status = serde_json::to_string_pretty(&pod["status"])?;
                bail!("{name} is not {what}:\n{status}\n{}", self.errors(20));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Its folder: `root` is what it calls its root, `trace` is for the pods to write to.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Ends it, then removes the cgroups above its pods, which it leaves; pods are not stopped.
    pub async fn stop(mut self) -> Result<()> {
        self.end().await?;
        self.cgroups.iter().for_each(|dir| remove_cgroup(dir));
        Ok(())
    }

    async fn end(&mut self) -> Result<()> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        kill_process(pid.context("the kubelet has ended before")?, Signal::TERM)?;
        if tokio::time::timeout(Duration::from_secs(20), self.child.wait()).await.is_err() {
            bail!("20 s after SIGTERM the kubelet is still there\n{}", self.log_tail(20));
        }
        Ok(())
    }

    /// The last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        let all: Vec<String> = self.log();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// The last errors in its log.
    pub fn errors(&self, lines: usize) -> String {
        let all: Vec<String> = self.log().into_iter().filter(|line| line.starts_with(['E', 'F'])).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// An error in its log with this word.
    pub fn complaint(&self, word: &str) -> Option<String> {
        self.log().into_iter().find(|line| line.starts_with('E') && line.contains(word))
    }

    fn log(&self) -> Vec<String> {
        let text = std::fs::read(self.dir.join("kubelet.log")).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }
}

fn spawn(program: &Path, dir: &Path) -> Result<Child> {
    let log = File::options().create(true).append(true).open(dir.join("kubelet.log"))?;
    let mut command = Command::new(program);
    command.arg("--config").arg(dir.join("config.json")).arg("--root-dir").arg(dir.join("root"));
    command.arg("--cert-dir").arg(dir.join("pki")).args(["--hostname-override", NODE]);
    command.args(["--node-ip", place::ADDRESS, "-v", "3"]);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
    command.spawn().with_context(|| program.display().to_string())
}
