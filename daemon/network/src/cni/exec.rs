//! Running one plugin: configuration on its stdin, result from its stdout, and an end to it in any case.
//!
//! The end is the plugin's own exit, never the closing of its output: a child that it leaves behind may hold that
//! open for ever.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The most that is kept of a plugin's output; the rest is read and dropped.
const KEEP: usize = 1024 * 1024;
/// How long a killed plugin is waited for. One that the kernel cannot end is left to a thread of its own.
const AFTER_KILL: Duration = Duration::from_secs(2);
/// Variables of our own service manager that plugins must not act on.
const NOT_FOR_PLUGINS: [&str; 4] = ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "WATCHDOG_USEC"];

/// How a plugin ended.
#[derive(Debug)]
pub(super) struct Done {
    /// None when it was killed for taking too long.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Runs a plugin with the daemon's environment and these variables on top.
pub(super) fn run(plugin: &Path, env: &[(&str, String)], stdin: &[u8], limit: Duration) -> io::Result<Done> {
    let mut command = Command::new(plugin);
    for name in NOT_FOR_PLUGINS {
        command.env_remove(name);
    }
    // A group of its own, so that its children can be ended with it.
    command.envs(env.iter().map(|(k, v)| (k, v))).current_dir("/").process_group(0);
    command.stdin(in_memory(stdin)?).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn()?;
    Running::new(child)?.finish(limit)
}

/// A plugin that does not read its stdin must not block us, so stdin is a file.
fn in_memory(bytes: &[u8]) -> io::Result<Stdio> {
    let mut file = File::from(memfd_create("cni-config", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

struct Running {
    child: Child,
    pidfd: OwnedFd,
    outputs: [Output; 2],
}

impl Running {
    fn new(mut child: Child) -> io::Result<Self> {
        let pidfd = pid_of(&child).and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stderr = child.stderr.take().map(OwnedFd::from);
        match (pidfd, Output::new(stdout), Output::new(stderr)) {
            (Ok(pidfd), Ok(stdout), Ok(stderr)) => Ok(Self { child, pidfd, outputs: [stdout, stderr] }),
            (pidfd, stdout, stderr) => {
                child.kill()?;
                child.wait()?;
                pidfd.map(drop).and(stdout.map(drop)).and(stderr.map(drop))?;
                Err(io::Error::other("its output was not opened"))
            }
        }
    }

    fn finish(mut self, limit: Duration) -> io::Result<Done> {
        let exited = self.watch(Instant::now() + limit)?;
        if !exited {
            self.kill_group();
            let gone = self.watch(Instant::now() + AFTER_KILL)?;
            let [stdout, stderr] = self.outputs.map(Output::into_bytes);
            if gone {
                self.child.wait()?;
            } else {
                let mut child = self.child;
                std::thread::spawn(move || child.wait());
            }
            return Ok(Done { status: None, stdout, stderr });
        }
        let status = Some(self.child.wait()?);
        self.outputs.iter_mut().try_for_each(Output::drain)?;
        let [stdout, stderr] = self.outputs.map(Output::into_bytes);
        Ok(Done { status, stdout, stderr })
    }

    /// Reads output until the plugin has exited (true) or the time is over (false).
    fn watch(&mut self, end: Instant) -> io::Result<bool> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = left.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
            fds.extend(
                self.outputs.iter().filter_map(|o| o.fd.as_ref()).map(|f| PollFd::new(f, PollFlags::IN)),
            );
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) if !fds[0].revents().is_empty() => return Ok(true),
                // A plugin that never stops writing keeps poll from ever seeing the end.
                Ok(_) if left.is_zero() => return Ok(false),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            self.outputs.iter_mut().try_for_each(Output::drain)?;
        }
    }

    /// Not yet waited for, so neither the process nor the group number can belong to anybody else.
    fn kill_group(&self) {
        if let Ok(pid) = pid_of(&self.child) {
            // It may have exited this moment; there is nothing left to do then.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let raw = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::other("its process id is out of range"))
}

/// One output of a plugin: what was read so far.
struct Output {
    fd: Option<File>,
    bytes: Vec<u8>,
}

impl Output {
    fn new(fd: Option<OwnedFd>) -> io::Result<Self> {
        if let Some(fd) = &fd {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { fd: fd.map(File::from), bytes: Vec::new() })
    }

    /// Reads what is there now.
    fn drain(&mut self) -> io::Result<()> {
        let mut buffer = [0u8; 8192];
        while let Some(fd) = &mut self.fd {
            match fd.read(&mut buffer) {
                Ok(0) => self.fd = None,
                Ok(n) => {
                    let room = KEEP.saturating_sub(self.bytes.len()).min(n);
                    self.bytes.extend_from_slice(&buffer[..room]);
                    // A writer that never stops must not keep us here past the deadline.
                    if room < n {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
