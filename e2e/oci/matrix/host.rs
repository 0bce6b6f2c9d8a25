//! What rows make on the host for a container to join, and take away after it.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The namespaces that /proc lists, by their names in a configuration.
pub(super) const KINDS: [(&str, &str); 8] = [
    ("mount", "mnt"),
    ("pid", "pid"),
    ("network", "net"),
    ("ipc", "ipc"),
    ("uts", "uts"),
    ("user", "user"),
    ("cgroup", "cgroup"),
    ("time", "time"),
];

/// A process that holds namespaces until it is dropped.
pub(super) struct Holder(Child);

impl Holder {
    /// Holds what `unshare` makes with these flags, after a script has been run inside.
    pub(super) fn new(flags: &[&str], script: &str) -> Result<Self> {
        let script = format!("{script}\necho ready\nexec sleep 100000");
        let mut command = Command::new("unshare");
        command.args(flags).args(["sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("unshare")?;
        let mut line = String::new();
        let said = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let holder = Self(child);
        anyhow::ensure!(said.is_some() && line == "ready\n", "unshare {flags:?} is not ready");
        Ok(holder)
    }

    /// The path of one of its namespaces, by the name in /proc.
    pub(super) fn namespace(&self, link: &str) -> String {
        format!("/proc/{}/ns/{link}", self.0.id())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whose namespace a link's text names: the host's, or the container's own.
pub(super) fn whose(link: &str, text: &str) -> &'static str {
    let host = std::fs::read_link(format!("/proc/self/ns/{link}"));
    if host.is_ok_and(|host| host.as_os_str() == text.trim()) { "host" } else { "own" }
}
