//! A private node: a daemon with its own root, state, socket, bridge, subnet and cgroup parent.

mod cgroup;
mod daemon;
mod settings;
mod subnet;
mod teardown;

pub use cgroup::remove_tree as remove_cgroup;
pub use cgroup::{CgroupParent, hierarchies};
pub use settings::{LowLevel, NetworkMode, Runtime, Settings};

use crate::cri::Cri;
use crate::crictl::Crictl;
use crate::leak::Owned;
use crate::registry::Registry;
use crate::tag::Tag;
use anyhow::Context;
use daemon::Daemon;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use subnet::Subnet;

/// A node; dropped without [`Node::finish`], it takes everything down by force.
pub struct Node {
    tag: Tag,
    dir: PathBuf,
    settings: Settings,
    subnet: Subnet,
    cgroup: CgroupParent,
    daemon: Mutex<Option<Daemon>>,
    /// Every sandbox and container id that this node was seen to have.
    ids: Mutex<BTreeSet<String>>,
    last_log: Mutex<String>,
}

impl Node {
    /// A node with the usual settings, its daemon answering.
    pub async fn start() -> anyhow::Result<Self> {
        Self::with(Settings::default()).await
    }

    /// A node with these settings, its daemon answering.
    pub async fn with(settings: Settings) -> anyhow::Result<Self> {
        let node = Self::prepare(settings)?;
        node.start_daemon().await?;
        Ok(node)
    }

    /// A node whose daemon has not been started.
    pub fn prepare(settings: Settings) -> anyhow::Result<Self> {
        let tag = Tag::next();
        let dir = std::env::temp_dir().join(tag.name());
        for name in ["certs.d", "logs", "cni", "volumes"] {
            let path = dir.join(name);
            std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        }
        // By it `clean` tells a killed run from a living one.
        std::fs::write(dir.join("runner.pid"), std::process::id().to_string())?;
        let subnet = Subnet::take()?;
        let cgroup = CgroupParent::create(&tag.name())?;
        let node = Self {
            tag,
            dir,
            settings,
            subnet,
            cgroup,
            daemon: Mutex::default(),
            ids: Mutex::default(),
            last_log: Mutex::default(),
        };
        node.write_names()?;
        node.write_config()?;
        Ok(node)
    }

    /// Starts the daemon and waits until it answers.
    pub async fn start_daemon(&self) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        self.spawn_daemon()?;
        self.wait_ready(Duration::from_secs(20)).await?;
        Ok(begun.elapsed())
    }

    /// Starts the daemon without waiting.
    pub fn spawn_daemon(&self) -> anyhow::Result<()> {
        let started = Daemon::spawn(self)?;
        *self.lock() = Some(started);
        Ok(())
    }

    /// Waits until the daemon answers Version; its end or the time's end is an error with its last log lines.
    pub async fn wait_ready(&self, limit: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.lock().as_mut().and_then(Daemon::ended) {
                anyhow::bail!("the daemon ended with {status}\n{}", self.log_tail(30));
            }
            let waited = begun.elapsed();
            match self.try_version().await {
                Ok(()) => return Ok(()),
                Err(error) if waited > limit => {
                    anyhow::bail!("no answer in {waited:?}: {error:#}\n{}", self.log_tail(30))
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn try_version(&self) -> anyhow::Result<()> {
        let answered = self.cri().await?.version();
        tokio::time::timeout(Duration::from_secs(2), answered).await??;
        Ok(())
    }

    /// kill -9: the daemon has no chance to tidy up.
    pub async fn kill_daemon(&self) -> anyhow::Result<()> {
        let taken = self.lock().take();
        if let Some(daemon) = taken {
            daemon.kill().await?;
        }
        Ok(())
    }

    /// SIGTERM, and the time until it was gone.
    pub async fn stop_daemon(&self) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let taken = self.lock().take();
        if let Some(daemon) = taken {
            daemon.stop(Duration::from_secs(20)).await.with_context(|| self.log_tail(30))?;
        }
        Ok(begun.elapsed())
    }

    /// The daemon's process id while it runs.
    pub fn daemon_pid(&self) -> Option<i32> {
        self.lock().as_ref().map(Daemon::pid)
    }

    /// A connected client; a daemon that restarts needs no new one.
    pub async fn cri(&self) -> anyhow::Result<Cri> {
        Cri::connect(&self.socket()).await
    }

    /// crictl for this node.
    pub fn crictl(&self) -> anyhow::Result<Crictl> {
        Crictl::new(&self.socket(), &self.dir)
    }

    /// Makes a registry's name lead to one on loopback, by hosts.toml.
    pub fn mirror(&self, name: &str, registry: &Registry) -> anyhow::Result<()> {
        let folder = self.dir.join("certs.d").join(name);
        std::fs::create_dir_all(&folder)?;
        let host = registry.host();
        let text = format!(
            "server = \"http://{host}\"\n\n[host.\"http://{host}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
        );
        Ok(std::fs::write(folder.join("hosts.toml"), text)?)
    }

    /// Its tag.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Its folder; nothing of the node's files is elsewhere.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("state/berthd.sock")
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The subnet of its pods, such as `10.213.7.0/24`.
    pub fn subnet(&self) -> String {
        self.subnet.to_string()
    }

    /// The cgroup that its pods lie under.
    pub fn cgroup(&self) -> &CgroupParent {
        &self.cgroup
    }

    /// Remembers an id, so that the leak checker knows it as ours.
    pub fn remember(&self, id: &str) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    /// What the leak checker looks for.
    pub fn owned(&self) -> Owned {
        // Pods of a foreign client, such as critest, are known from the daemon's log.
        let log = std::fs::read(self.log_path()).unwrap_or_default();
        let logged = String::from_utf8_lossy(&log);
        let words = logged.split(|c: char| !c.is_ascii_alphanumeric());
        let logged = words.filter(|word| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit()));
        let mut ids: BTreeSet<String> = logged.map(str::to_owned).collect();
        ids.extend(self.ids.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        Owned { name: self.tag.name(), bridge: self.tag.bridge(), dir: self.dir.clone(), ids }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Daemon>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
