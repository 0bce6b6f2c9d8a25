//! The parent's side: init started, ordered, listened to, and never left behind.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use berth_core::oci::LinuxIdMapping;
use berth_sys::namespace::Namespaces;
use berth_sys::pidfd::{self, Exit};
use berth_sys::spawn::{Child, Plan, spawn};

use crate::args::{ResolvedUser, Stdio};
use crate::channel::Channel;
use crate::error::{At, Error, Failure};
use crate::wire::{Go, Order, Report};

/// What init is started with.
pub(crate) struct Start<'a> {
    pub(crate) exe: BorrowedFd<'a>,
    pub(crate) stdio: &'a Stdio,
    pub(crate) preserved: &'a [OwnedFd],
    /// Descriptors that the order names by [`Start::number_of`].
    pub(crate) extra: &'a [BorrowedFd<'a>],
    pub(crate) namespaces: Namespaces,
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
}

impl Start<'_> {
    /// The number under which init finds the descriptor `extra[index]`, given how many are preserved.
    pub(crate) fn number_of(preserved: usize, index: usize) -> i32 {
        (4 + preserved + index) as i32
    }
}

/// A container's process under construction. Dropped, it is killed and reaped.
pub(crate) struct Init {
    child: Option<Child>,
    channel: Option<Channel>,
    /// Whether it was ever heard of.
    spoke: bool,
}

/// What init has to say at the end of its work.
pub(crate) struct Built {
    pub(crate) child: Child,
    pub(crate) channel: Channel,
    pub(crate) user: ResolvedUser,
    pub(crate) warnings: Vec<String>,
    pub(crate) console: Option<OwnedFd>,
}

/// Answers what init asks for on its way.
pub(crate) trait Answers {
    /// Writes the mappings of the user namespace that `pid` is in.
    fn map_users(&mut self, pid: i32) -> Result<(), Error>;
    /// Runs the hooks of the parent.
    fn hooks(&mut self, pid: i32) -> Result<(), Error>;
}

impl Init {
    /// Starts it.
    pub(crate) fn spawn(start: &Start<'_>) -> Result<Self, Error> {
        let (ours, theirs) = Channel::pair().step("make a channel")?;
        let null;
        let streams = match start.stdio {
            Stdio::Fds([a, b, c]) => [a.as_fd(), b.as_fd(), c.as_fd()],
            Stdio::Terminal => {
                null = std::fs::File::options()
                    .read(true)
                    .write(true)
                    .open("/dev/null")
                    .at("open", "/dev/null")?;
                [null.as_fd(), null.as_fd(), null.as_fd()]
            }
        };
        let mut fds: Vec<BorrowedFd<'_>> = streams.to_vec();
        fds.extend(start.preserved.iter().map(AsFd::as_fd));
        let number = fds.len();
        fds.push(theirs.as_fd());
        fds.extend(start.extra);
        let argv = ["berth-shim".to_owned(), "init".to_owned(), number.to_string()].map(|s| text(&s));
        let child = spawn(&Plan {
            exe: start.exe,
            argv: &argv,
            env: &[],
            fds: &fds,
            namespaces: start.namespaces,
            cgroup: start.cgroup,
        })
        .step("start init")?;
        Ok(Self { child: Some(child), channel: Some(ours), spoke: false })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.as_ref().map_or(-1, |c| c.pid)
    }

    /// Whether it died by SIGKILL before it said anything, as a child does that was cloned into a cgroup on some kernels.
    pub(crate) fn was_stillborn(&self, error: &Error) -> bool {
        !self.spoke && matches!(error, Error::Died { how } if how == "signal 9")
    }

    /// Gives the order and answers until it is carried out.
    pub(crate) fn build(
        &mut self,
        order: &Order,
        filter: &[u8],
        answers: &mut impl Answers,
    ) -> Result<Built, Error> {
        let sent = self.channel().and_then(|c| c.send(order).and_then(|()| c.send_bytes(filter)));
        if sent.is_err() {
            self.kill();
            return Err(self.died());
        }
        loop {
            let (report, fd) = match self.channel().and_then(Channel::receive::<Report>) {
                Ok(Some(message)) => message,
                Ok(None) => return Err(self.died()),
                Err(_) => {
                    // Not the end of the process, but of what we understand of it.
                    self.kill();
                    return Err(self.died());
                }
            };
            self.spoke = true;
            match report {
                Report::MapUsers => answers.map_users(self.pid())?,
                Report::Hooks => answers.hooks(self.pid())?,
                Report::Sibling(pid) => self.follow(pid, fd)?,
                Report::Failed(failure) => return Err(failure.into()),
                Report::Ready { user, warnings } => return self.done(user, warnings, fd),
            }
            let pid = self.pid();
            if self.channel().and_then(|c| c.send(&Go::Continue(pid))).is_err() {
                self.kill();
                return Err(self.died());
            }
        }
    }

    fn kill(&self) {
        if let Some(child) = &self.child {
            let _ = pidfd::send_signal(&child.pidfd, 9);
        }
    }

    fn channel(&self) -> io::Result<&Channel> {
        self.channel.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }

    fn done(
        &mut self,
        user: ResolvedUser,
        warnings: Vec<String>,
        console: Option<OwnedFd>,
    ) -> Result<Built, Error> {
        match (self.child.take(), self.channel.take()) {
            (Some(child), Some(channel)) => Ok(Built { child, channel, user, warnings, console }),
            _ => Err(Error::Died { how: "without a trace".to_owned() }),
        }
    }

    /// The work goes on in a sibling, which is our child as well.
    fn follow(&mut self, pid: i32, handle: Option<OwnedFd>) -> Result<(), Error> {
        let lost = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let pidfd = handle.ok_or_else(lost).step("take over the container's process")?;
        let next = Child { pid, pidfd };
        if let Some(first) = self.child.replace(next) {
            // It ends right after its report. Another reaper of this process may be quicker.
            let _ = pidfd::wait(&first.pidfd);
        }
        Ok(())
    }

    fn died(&mut self) -> Error {
        let how = match self.child.take().map(|child| pidfd::wait(&child.pidfd)) {
            Some(Ok(Exit::Signal(signal))) => format!("signal {signal}"),
            Some(Ok(Exit::Code(code))) => format!("code {code}"),
            _ => "it is not known how".to_owned(),
        };
        Error::Died { how }
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _ = pidfd::send_signal(&child.pidfd, 9);
            let _ = pidfd::wait(&child.pidfd);
        }
    }
}

/// Sends the order to start and waits for the program to run: the channel closes at execve.
pub(crate) fn release(channel: Channel) -> Result<(), Failure> {
    channel
        .send(&Go::Start)
        .step("give the order to start")
        .map_err(|f| f.note("the container's process has ended"))?;
    match channel.receive::<Report>() {
        Ok(Some((Report::Failed(failure), _))) => Err(failure),
        _ => Ok(()),
    }
}

/// A C string; what is put in never holds a NUL.
fn text(s: &str) -> CString {
    CString::new(s).unwrap_or_default()
}

/// Writes the mappings of the user namespace that the process `pid` is in.
pub(crate) fn write_mappings(
    pid: i32,
    users: &[LinuxIdMapping],
    groups: &[LinuxIdMapping],
) -> Result<(), Failure> {
    for (file, mappings) in [("gid_map", groups), ("uid_map", users)] {
        let lines: String =
            mappings.iter().map(|m| format!("{} {} {}\n", m.container_id(), m.host_id(), m.size())).collect();
        let path = format!("/proc/{pid}/{file}");
        std::fs::write(&path, lines).at("write user namespace mapping", &path)?;
    }
    Ok(())
}

/// A user namespace with the given mappings, kept by nothing but the descriptor.
pub(crate) fn user_namespace(
    exe: BorrowedFd<'_>,
    users: &[LinuxIdMapping],
    groups: &[LinuxIdMapping],
) -> Result<OwnedFd, Failure> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step("make a pipe")?;
    let argv = ["berth-shim", "init", "hold"].map(text);
    let null = std::fs::File::options().write(true).open("/dev/null").at("open", "/dev/null")?;
    let plan = Plan {
        exe,
        argv: &argv,
        env: &[],
        fds: &[reader.as_fd(), null.as_fd(), null.as_fd()],
        namespaces: Namespaces::USER,
        cgroup: None,
    };
    let child = spawn(&plan).step("make a user namespace for owner mappings")?;
    let made = write_mappings(child.pid, users, groups).and_then(|()| {
        let path = format!("/proc/{}/ns/user", child.pid);
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).at("open", &path)
    });
    drop(writer);
    let _ = pidfd::send_signal(&child.pidfd, 9);
    let _ = pidfd::wait(&child.pidfd);
    made
}

/// Connects to the agent that takes a seccomp listener.
pub(crate) fn connect_agent(path: &Path) -> Result<OwnedFd, Failure> {
    UnixStream::connect(path).at("connect to the seccomp agent", path).map(OwnedFd::from)
}
