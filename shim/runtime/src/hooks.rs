//! Hooks: programs that config.json wants run at points of a container's life, with its state on their standard input.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use berth_core::oci::{Hook, Spec};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;

use crate::error::Failure;

/// Why a hook is no success.
#[derive(Debug, thiserror::Error)]
#[error("{kind} hook {}: {reason}", crate::error::printable(path))]
pub struct HookError {
    /// "createRuntime" and so on.
    pub kind: String,
    /// The program.
    pub path: PathBuf,
    /// What it did.
    pub reason: String,
}

impl HookError {
    pub(crate) fn into_failure(self) -> Failure {
        Failure::refused(&format!("run {} hook", self.kind), Some(&self.path), self.reason)
    }
}

/// The state of a container as the specification words it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State<'a> {
    /// The version of the specification.
    pub oci_version: &'a str,
    /// The container.
    pub id: &'a str,
    /// creating, created, running, stopped.
    pub status: &'a str,
    /// Its first process; left out when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Absolute.
    pub bundle: &'a std::path::Path,
    /// Sorted.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub annotations: std::collections::BTreeMap<&'a str, &'a str>,
}

/// The version of the specification that we are written for.
pub const OCI_VERSION: &str = berth_core::oci::VERSION;

/// The state as JSON.
pub fn state_text(id: &str, status: &str, pid: Option<i32>, bundle: &std::path::Path, spec: &Spec) -> String {
    let annotations = spec.annotations().iter().flatten().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let state = State { oci_version: OCI_VERSION, id, status, pid, bundle, annotations };
    // A structure of strings and numbers always has a JSON form.
    serde_json::to_string(&state).unwrap_or_default()
}

/// Runs the hooks one after the other; the first that fails ends the row.
///
/// # Errors
/// A hook that cannot be run, ends with another code than 0 or takes longer than its time-out.
pub fn run_all(kind: &str, list: &[Hook], state: &str) -> Result<(), HookError> {
    list.iter().try_for_each(|hook| run(kind, hook, state))
}

fn run(kind: &str, hook: &Hook, state: &str) -> Result<(), HookError> {
    let fail = |reason: String| HookError { kind: kind.to_owned(), path: hook.path().clone(), reason };
    let mut command = Command::new(hook.path());
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some((name, rest)) = hook.args().as_deref().and_then(<[String]>::split_first) {
        command.arg0(name).args(rest);
    }
    for entry in hook.env().iter().flatten() {
        if let Some((key, value)) = entry.split_once('=') {
            command.env(key, value);
        }
    }
    berth_sys::signal::by_default(&mut command);
    let mut child = command.spawn().map_err(|e| fail(e.to_string()))?;
    let mut talk = Talk::new(&mut child, state);
    let limit = hook.timeout().filter(|t| *t > 0).map(|t| Duration::from_secs(t.unsigned_abs()));
    if !talk.until_ended(child.id() as i32, limit) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(fail(format!("did not end within {} s", hook.timeout().unwrap_or(0))));
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(fail(format!("{status}: {}", String::from_utf8_lossy(&talk.said).trim()))),
        // Another reaper of this process was quicker, so how it ended is not known.
        Err(_) => Ok(()),
    }
}

/// Where processes have no handles, a hook's end is looked for so often.
const LOOK: Duration = Duration::from_millis(5);

/// Whether a child has ended; it stays to be waited for.
fn is_over(pid: i32) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Pid::from_raw(pid).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

/// How much of what a hook says is kept.
const KEPT: usize = 4096;

/// Both pipes of a hook, served without ever waiting for one of them: it may read its state or not, and say as much as it likes.
struct Talk<'a> {
    stdin: Option<ChildStdin>,
    rest: &'a [u8],
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
}

impl<'a> Talk<'a> {
    fn new(child: &mut Child, state: &'a str) -> Self {
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        // A pipe that cannot be made non-blocking does not exist on Linux.
        let _ = stdin.as_ref().map(|pipe| rustix::io::ioctl_fionbio(pipe, true));
        let _ = stderr.as_ref().map(|pipe| rustix::io::ioctl_fionbio(pipe, true));
        Self { stdin, rest: state.as_bytes(), stderr, said: Vec::new() }
    }

    /// Serves the pipes until the process has ended; false when that took too long.
    fn until_ended(&mut self, pid: i32, limit: Option<Duration>) -> bool {
        let handle = berth_sys::pidfd::open(pid).ok();
        if handle.is_none() && !berth_sys::lacks(berth_sys::Call::PidfdOpen) {
            return true;
        }
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            self.write();
            self.read();
            if handle.is_none() && is_over(pid) {
                self.read();
                return true;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let turn = if handle.is_some() { left } else { Some(left.map_or(LOOK, |left| left.min(LOOK))) };
            let time = turn
                .map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            let mut polls: Vec<PollFd<'_>> = handle.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            polls.extend(self.stdin.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
            polls.extend(self.stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            match rustix::event::poll(&mut polls, time.as_ref()) {
                Ok(0) if handle.is_some() || left.is_some_and(|left| left.is_zero()) => return false,
                Ok(_) if handle.is_some() && !polls[0].revents().is_empty() => {
                    self.read();
                    return true;
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn write(&mut self) {
        while let Some(pipe) = &mut self.stdin {
            match pipe.write(self.rest) {
                Ok(n) if n < self.rest.len() => self.rest = &self.rest[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // All is written, or the hook does not read, which is within its rights.
                _ => self.stdin = None,
            }
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; KEPT];
        while let Some(pipe) = &mut self.stderr {
            match pipe.read(&mut buffer) {
                Ok(n @ 1..) => {
                    let room = KEPT - self.said.len();
                    self.said.extend_from_slice(&buffer[..n.min(room)]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => self.stderr = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(script: &str, timeout: Option<i64>) -> Hook {
        let text = serde_json::json!({
            "path": "/bin/sh", "args": ["sh", "-c", script], "env": ["A=1"], "timeout": timeout
        });
        serde_json::from_value(text).expect("hook")
    }

    #[test]
    fn gets_its_environment_and_the_state() {
        run_all("poststart", &[hook("[ \"$A\" = 1 ] && grep -q hello", None)], "hello").expect("success");
    }

    #[test]
    fn failures_say_what_the_hook_said() {
        let error = run_all("poststart", &[hook("echo no luck >&2; exit 3", None)], "").expect_err("failure");
        assert!(error.to_string().contains("no luck"), "{error}");
        let loud = hook("head -c 300000 /dev/zero >&2; exit 0", None);
        run_all("poststart", &[loud], &"x".repeat(300_000)).expect("says much, reads nothing");
        let error = run_all("poststart", &[hook("exec sleep 30", Some(1))], "").expect_err("too long");
        assert!(error.to_string().contains("within 1 s"), "{error}");
    }
}
