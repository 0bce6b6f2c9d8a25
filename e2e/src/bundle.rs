//! A bundle with a busybox rootfs, and the low-level runtime that is to run it: ours, or runc beside it.
//!
//! Both get the same configuration, rootfs and command line, each in a folder and under a name of its own, so that what
//! they do can be compared word by word.

mod base;
mod command;
mod left;
mod runtime;
mod socket;

pub use base::{mount, push};
pub use command::{Ran, Step, wait_for};
pub use runtime::Runtime;
pub use socket::{Received, Receiver};

use crate::filter::Filter;
use crate::tag::Tag;
use anyhow::Context;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A bundle, its container's id, and whose it is.
#[derive(Debug)]
pub struct Bundle {
    runtime: Runtime,
    id: String,
    dir: PathBuf,
    state: PathBuf,
    filter: Option<Filter>,
}

impl Bundle {
    /// Lays a rootfs and writes the base configuration.
    pub fn new(runtime: Runtime) -> anyhow::Result<Self> {
        let id = Tag::next().name();
        let dir = std::env::temp_dir().join(&id);
        let state = dir.join("state");
        let bundle = Self { runtime, id, dir, state, filter: None };
        base::lay(&bundle.rootfs()).with_context(|| format!("laying {}", bundle.rootfs().display()))?;
        bundle.write(&base::config(bundle.id()))?;
        Ok(bundle)
    }

    /// Who runs it.
    pub fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// From now on every command of the runtime runs behind this filter.
    pub fn behind(&mut self, filter: Option<Filter>) {
        self.filter = filter;
    }

    /// The command without any flag.
    fn command(&self) -> anyhow::Result<Command> {
        let plain = self.runtime.command()?;
        match &self.filter {
            Some(filter) => filter.around(&plain),
            None => Ok(plain),
        }
    }

    /// The container's id, and the name of its cgroup.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The bundle's folder, which is also where the runtime's state is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file or folder beside the rootfs.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The same as text, for a configuration.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Its rootfs.
    pub fn rootfs(&self) -> PathBuf {
        self.dir.join("rootfs")
    }

    /// Where the runtime keeps its state.
    pub fn state_dir(&self) -> PathBuf {
        self.state.clone()
    }

    /// Lets the runtime keep its state in memory, as below /run on a node.
    pub fn keep_state_in_memory(&mut self) {
        self.state = Path::new("/dev/shm").join(&self.id);
    }

    /// The configuration as it stands.
    pub fn config(&self) -> anyhow::Result<Value> {
        let path = self.path("config.json");
        Ok(serde_json::from_slice(&std::fs::read(&path)?)?)
    }

    /// Changes the configuration.
    pub fn change(&self, change: impl FnOnce(&mut Value)) -> anyhow::Result<()> {
        let mut config = self.config()?;
        change(&mut config);
        self.write(&config)
    }

    /// Replaces the configuration by any text.
    pub fn raw(&self, text: &[u8]) -> anyhow::Result<()> {
        std::fs::write(self.path("config.json"), text).context("writing config.json")
    }

    fn write(&self, config: &Value) -> anyhow::Result<()> {
        self.raw(&serde_json::to_vec_pretty(config)?)
    }

    /// The directories of the container's cgroup, or of one below it, wherever they exist.
    pub fn cgroups(&self, below: &str) -> Vec<PathBuf> {
        let name = format!("{}/{below}", self.id);
        let all = crate::node::hierarchies().into_iter().map(|root| root.join(name.trim_end_matches('/')));
        all.filter(|dir| dir.is_dir()).collect()
    }

    /// The first of these files in the container's cgroups, trimmed.
    pub fn cgroup_file(&self, files: &[&str]) -> anyhow::Result<String> {
        for dir in self.cgroups("") {
            for file in files {
                if let Ok(text) = std::fs::read_to_string(dir.join(file)) {
                    return Ok(text.trim().to_owned());
                }
            }
        }
        anyhow::bail!("none of {files:?} in the cgroups of {}", self.id)
    }

    /// A text without what differs from bundle to bundle: the folder and the id.
    pub fn plain(&self, text: &str) -> String {
        text.replace(&self.dir.display().to_string(), "<bundle>").replace(&self.id, "<id>")
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        left::force(self);
    }
}
