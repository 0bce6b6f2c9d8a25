//! Plugins that outlived the daemon that called them.
//!
//! A plugin that hangs when its daemon is killed goes on by itself, and may finish its ADD after the next daemon's DEL:
//! a link and an address that nobody knows of. The next daemon therefore ends it before it touches the network.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a killed plugin may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills every process that was started as a plugin for one of these sandboxes, with what it started in turn, and
/// waits until they are gone. Gives how many it found.
pub(super) fn end(sandboxes: &BTreeSet<&str>) -> usize {
    let deadline = Instant::now() + PATIENCE;
    let mut found = 0;
    // Again and again, since one that is not yet killed may fork.
    while Instant::now() < deadline {
        let left = find(sandboxes);
        if left.is_empty() {
            break;
        }
        for (pid, pidfd) in left {
            tracing::warn!(
                pid = pid.as_raw_nonzero(),
                "a CNI plugin of an earlier daemon still ran; it is killed"
            );
            found += 1;
            // It may have ended this moment, which is as good.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            wait(&pidfd, deadline);
        }
    }
    found
}

/// Processes with a plugin's environment for one of the sandboxes, in this daemon's own PID namespace: what a container
/// writes into its environment proves nothing.
fn find(sandboxes: &BTreeSet<&str>) -> Vec<(Pid, OwnedFd)> {
    let own = fs::read_link("/proc/self/ns/pid").ok();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mine = |pid: i32| {
        let pid = Pid::from_raw(pid)?;
        // Opened first: what is read afterwards belongs to this process and to no later one of its number.
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let base = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        // First: reading the environment takes a lock of the process's memory, and a container's may be held for ever.
        if fs::read_link(base.join("ns/pid")).ok() != own {
            return None;
        }
        let environment = fs::read(base.join("environ")).ok()?;
        is_plugin(&environment, sandboxes).then_some((pid, pidfd))
    };
    pids.filter_map(mine).collect()
}

fn is_plugin(environment: &[u8], sandboxes: &BTreeSet<&str>) -> bool {
    let value = |key: &[u8]| environment.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(key));
    let named = value(b"CNI_CONTAINERID=").and_then(|id| std::str::from_utf8(id).ok());
    named.is_some_and(|id| sandboxes.contains(id)) && value(b"CNI_COMMAND=").is_some()
}

fn wait(pidfd: &OwnedFd, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    let Ok(left) = Timespec::try_from(left) else { return };
    // Whether it is gone is seen by the next look.
    let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left));
}

#[cfg(test)]
mod tests {
    use super::{end, is_plugin};
    use std::collections::BTreeSet;
    use std::process::Command;

    #[test]
    fn a_plugin_of_a_known_sandbox_is_ended_and_nothing_else() {
        let id = format!("orphan-{}", std::process::id());
        let start = |sandbox: &str| {
            let mut command = Command::new("sleep");
            command.arg("100").env("CNI_COMMAND", "ADD").env("CNI_CONTAINERID", sandbox).spawn().unwrap()
        };
        let (mut plugin, mut other) = (start(&id), start(&format!("{id}-other")));
        // Waited for, as init does with an orphan.
        let waiter = std::thread::spawn(move || plugin.wait());
        while end(&BTreeSet::from([id.as_str()])) == 0 {
            std::thread::yield_now();
        }
        assert!(!waiter.join().unwrap().unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "another sandbox's plugin was ended");
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_variable_alone_makes_no_plugin() {
        let known = BTreeSet::from(["one"]);
        assert!(is_plugin(b"A=1\0CNI_COMMAND=DEL\0CNI_CONTAINERID=one\0", &known));
        assert!(!is_plugin(b"CNI_CONTAINERID=one\0", &known));
        assert!(!is_plugin(b"CNI_COMMAND=DEL\0CNI_CONTAINERID=two\0XCNI_CONTAINERID=one", &known));
        assert!(!is_plugin(b"", &known));
    }
}
