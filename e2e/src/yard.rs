//! A place of its own for a daemon that is none of the usual nodes: a folder, a cgroup in every hierarchy, and the check
//! that nothing is left.

use crate::leak::{self, Owned};
use crate::node::CgroupParent;
use crate::tag::Tag;
use crate::{check, paths};
use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// The place; dropped without [`Yard::finish`], everything in it is taken down by force.
pub struct Yard {
    tag: Tag,
    dir: PathBuf,
    cgroup: CgroupParent,
    ids: Mutex<BTreeSet<String>>,
    daemon: Option<Child>,
}

impl Yard {
    /// A place with the product under the names that foreign callers know, in the folder `bin`.
    pub fn new() -> anyhow::Result<Self> {
        let tag = Tag::next();
        let dir = std::env::temp_dir().join(tag.name());
        std::fs::create_dir_all(dir.join("bin"))?;
        std::fs::write(dir.join("runner.pid"), std::process::id().to_string())?;
        let shim = paths::product("berth-shim")?;
        for name in ["containerd-shim-berth-v1", "berth-oci"] {
            std::os::unix::fs::symlink(&shim, dir.join("bin").join(name))?;
        }
        let cgroup = CgroupParent::create(&tag.name())?;
        Ok(Self { tag, dir, cgroup, ids: Mutex::default(), daemon: None })
    }

    /// Its name, which is also that of its cgroup.
    pub fn name(&self) -> String {
        self.tag.name()
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its cgroup.
    pub fn cgroup(&self) -> &CgroupParent {
        &self.cgroup
    }

    /// Remembers a container's id, so that the leak checker knows it.
    pub fn remember(&self, id: &str) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id.trim().to_owned());
    }

    /// Starts the daemon with its output in the log, and waits until `socket` takes connections. `path` comes first in
    /// its PATH, after the product.
    pub async fn start(&mut self, words: &[String], path: &[PathBuf], socket: &Path) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut folders = vec![self.dir.join("bin")];
        folders.extend_from_slice(path);
        let mut all = std::env::join_paths(&folders)?;
        all.push(":");
        all.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("PATH", all).env_remove("NOTIFY_SOCKET");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true).process_group(0);
        let mut child = command.spawn().with_context(|| format!("{words:?}"))?;
        let begun = Instant::now();
        while tokio::net::UnixStream::connect(socket).await.is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("{words:?} ended with {status}: {}", self.log());
            }
            check!(begun.elapsed() < Duration::from_secs(30), "{words:?} does not listen: {}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.daemon = Some(child);
        Ok(())
    }

    /// The end of the daemon's log.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Stops the daemon and fails if anything is left; with the daemon's log if the test failed.
    pub async fn finish(mut self, result: anyhow::Result<()>) -> anyhow::Result<()> {
        let result = result.with_context(|| self.log());
        if let Some(mut daemon) = self.daemon.take() {
            if let Some(pid) = daemon.id().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) {
                rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
            }
            let stopped = tokio::time::timeout(Duration::from_secs(20), daemon.wait()).await;
            check!(stopped.is_ok(), "the daemon does not end: {}", self.log());
        }
        result?;
        let left = leak::wait_clean(&self.owned(), Duration::from_secs(5)).await;
        check!(left.is_empty(), "{}", left.join("\n"));
        Ok(())
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("daemon.log")
    }

    fn owned(&self) -> Owned {
        let ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Owned { name: self.tag.name(), bridge: self.tag.bridge(), dir: self.dir.clone(), ids }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        drop(self.daemon.take());
        leak::force(&self.owned());
        self.cgroup.remove();
        // A busy folder was reported as a leaked mount.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
