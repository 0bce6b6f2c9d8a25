//! The daemon's process: started, watched, stopped, killed, and its log.

use super::{Node, Runtime};
use crate::paths;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};

/// A started daemon. Dropping it kills it.
pub(super) struct Daemon {
    child: Child,
    pid: i32,
}

impl Daemon {
    /// Starts it with its output appended to the node's log.
    pub(super) fn spawn(node: &Node) -> anyhow::Result<Self> {
        let log = File::options().create(true).append(true).open(node.log_path())?;
        let mut words: Vec<OsString> = node.settings.wrapper.iter().map(OsString::from).collect();
        words.extend(node.command_line()?);
        let (program, args) = words.split_first().context("an empty command line")?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // containerd looks for its shim there.
        let path = std::env::var("PATH").unwrap_or_default();
        let (own, tools) = (node.dir.join("bin"), paths::tools());
        command.env("PATH", format!("{}:{}:{path}", own.display(), tools.display()));
        command.env_remove("NOTIFY_SOCKET").kill_on_drop(true).process_group(0);
        let child = command.spawn().with_context(|| format!("{words:?}"))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).context("it has no pid")?;
        Ok(Self { child, pid })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// kill -9 and reap.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// SIGTERM; staying longer than `limit` is an error, and then it is killed.
    pub(super) async fn stop(mut self, limit: Duration) -> anyhow::Result<()> {
        if let Some(pid) = Pid::from_raw(self.pid) {
            kill_process(pid, Signal::TERM)?;
        }
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(ExitStatus::success) => Ok(()),
            Ok(status) => bail!("after SIGTERM the daemon ended with {}", status?),
            Err(_) => bail!("{limit:?} after SIGTERM the daemon is still there"),
        }
    }
}

impl Node {
    /// The daemon's command line, program first.
    pub fn command_line(&self) -> anyhow::Result<Vec<OsString>> {
        let config = self.config_path().into_os_string();
        if self.settings.runtime == Runtime::Containerd {
            return Ok(vec![paths::peer("containerd")?.into(), "--config".into(), config]);
        }
        let mut words: Vec<OsString> = vec![paths::product("berthd")?.into()];
        words.extend(["--config".into(), config]);
        words.extend(["--root".into(), self.dir.join("root").into_os_string()]);
        words.extend(["--state".into(), self.dir.join("state").into_os_string()]);
        words.extend(["--socket".into(), self.socket().into_os_string()]);
        let level = if self.settings.quiet { "info" } else { "debug" };
        words.extend(["--log-level", level, "--log-format", "json"].map(OsString::from));
        words.extend(self.settings.extra_args.iter().map(OsString::from));
        Ok(words)
    }

    /// Where the daemon's output goes.
    pub fn log_path(&self) -> PathBuf {
        self.dir.join("berthd.log")
    }

    /// The last lines of the daemon's log.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}
