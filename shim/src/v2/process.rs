//! One process that containerd knows by name: a container's first one, or an exec.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use berth_core::Timestamp;
use berth_proto::containerd::Status;
use rustix::termios::Winsize;
use tokio::sync::watch;

use super::stdio::{Paths, Streams};
use crate::error::CallError;

/// Where it is in its life; each state holds what is true then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// An exec that was asked for and not started.
    Noted,
    /// Built, its program not yet executed.
    Created(i32),
    /// Its program runs.
    Running(i32),
    /// It has been reaped; zero is the pid of one that never was.
    Stopped { pid: i32, code: u8, at: Timestamp },
}

impl Life {
    /// Its pid on the wire.
    pub(super) fn pid(self) -> u32 {
        match self {
            Life::Noted => 0,
            Life::Created(pid) | Life::Running(pid) | Life::Stopped { pid, .. } => pid.unsigned_abs(),
        }
    }

    /// Its state on the wire.
    pub(super) fn status(self) -> Status {
        match self {
            Life::Noted | Life::Created(_) => Status::Created,
            Life::Running(_) => Status::Running,
            Life::Stopped { .. } => Status::Stopped,
        }
    }

    /// The code and time of its end.
    pub(super) fn end(self) -> Option<(u8, Timestamp)> {
        match self {
            Life::Stopped { code, at, .. } => Some((code, at)),
            _ => None,
        }
    }

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Life::Noted => "not started",
            Life::Created(_) => "created",
            Life::Running(_) => "running",
            Life::Stopped { .. } => "stopped",
        }
    }
}

/// What there is of a process once it has a pid.
#[derive(Debug)]
pub(super) struct Handles {
    pub(super) pidfd: OwnedFd,
    /// The terminal's master.
    pub(super) console: Option<Arc<OwnedFd>>,
    pub(super) streams: Streams,
}

/// One process.
#[derive(Debug)]
pub(super) struct Process {
    /// The exec's id; empty for the first process.
    pub(super) exec_id: String,
    pub(super) paths: Paths,
    pub(super) handles: OnceLock<Handles>,
    /// Start and delete take turns, and the end is told after the start under way.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    early: Mutex<Early>,
    life: Mutex<Life>,
    stopped: watch::Sender<bool>,
}

/// What was asked of an exec before it was started.
#[derive(Debug, Default)]
struct Early {
    input_closed: bool,
    size: Option<Winsize>,
}

impl Process {
    /// One without a pid.
    pub(super) fn new(exec_id: String, paths: Paths) -> Process {
        Process {
            exec_id,
            paths,
            handles: OnceLock::new(),
            turn: Arc::default(),
            early: Mutex::default(),
            life: Mutex::new(Life::Noted),
            stopped: watch::Sender::new(false),
        }
    }

    /// What it is now.
    pub(super) fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handles of one that has or had a pid.
    pub(super) fn handles(&self, id: &str) -> Result<&Handles, CallError> {
        let needs = "it must have been started";
        self.handles.get().ok_or_else(|| self.refusal(id, needs))
    }

    /// It has been built. What was asked for before is done now.
    pub(super) fn fill(&self, handles: Handles) {
        let early = self.early();
        if early.input_closed {
            handles.streams.close_input();
        }
        if let (Some(console), Some(size)) = (&handles.console, early.size) {
            let _its_program_may_have_gone = rustix::termios::tcsetwinsize(console, size);
        }
        // It is built once.
        let _was_empty = self.handles.set(handles);
    }

    /// Ends the input, now or as soon as there is one.
    pub(super) fn close_input(&self) {
        let mut early = self.early();
        match self.handles.get() {
            Some(handles) => handles.streams.close_input(),
            None => early.input_closed = true,
        }
    }

    /// Sets the terminal's size, now or as soon as there is one. A process without a terminal has nothing to be set.
    pub(super) fn resize(&self, size: Winsize) -> std::io::Result<()> {
        let mut early = self.early();
        match self.handles.get() {
            Some(Handles { console: Some(console), .. }) => Ok(rustix::termios::tcsetwinsize(console, size)?),
            Some(_) => Ok(()),
            None => {
                early.size = Some(size);
                Ok(())
            }
        }
    }

    fn early(&self) -> MutexGuard<'_, Early> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has ended: whoever waits is told.
    pub(super) fn end(&self, code: u8, at: Timestamp) {
        let mut life = self.life();
        let pid = i32::try_from(life.pid()).unwrap_or_default();
        *life = Life::Stopped { pid, code, at };
        drop(life);
        self.stopped.send_replace(true);
    }

    /// Waits for the end.
    pub(super) async fn stopped(&self) {
        let mut stopped = self.stopped.subscribe();
        let _told = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Its name for people, given the container's id.
    pub(super) fn called(&self, id: &str) -> String {
        match self.exec_id.as_str() {
            "" => id.to_owned(),
            exec => format!("{id}, exec {exec}"),
        }
    }

    /// A refusal for the state it is in.
    pub(super) fn refusal(&self, id: &str, needs: &'static str) -> CallError {
        CallError::State { id: self.called(id), state: self.life().name(), needs }
    }
}
