//! Why a container could not be built or run: always a step, what it was about, and the kernel's errno.

use std::fmt;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// A step that failed, in a form that travels from init to its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was being done: "mount", "execute", "set hostname".
    pub step: String,
    /// What it was done to; non-printing bytes are escaped.
    pub subject: Option<String>,
    /// The kernel's answer.
    pub errno: Option<i32>,
    /// What to do about it, or what else is known.
    pub note: Option<String>,
}

impl Failure {
    /// A failed step with the errno of `error`.
    pub fn new(step: &str, subject: Option<&Path>, error: &io::Error) -> Self {
        let errno = error.raw_os_error();
        Self {
            step: step.to_owned(),
            subject: subject.map(printable),
            errno,
            note: if errno.is_some() { None } else { Some(error.to_string()) },
        }
    }

    /// A step refused for a reason of ours.
    pub fn refused(step: &str, subject: Option<&Path>, note: impl Into<String>) -> Self {
        Self { step: step.to_owned(), subject: subject.map(printable), errno: None, note: Some(note.into()) }
    }

    /// Adds what else is known.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.step)?;
        if let Some(subject) = &self.subject {
            write!(f, " {subject}")?;
        }
        if let Some(errno) = self.errno {
            let text = io::Error::from_raw_os_error(errno).to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            // As Go writes it: callers, Docker among them, look for "no such file or directory".
            let text = match text.split_at_checked(1) {
                Some((first, rest)) if rest.starts_with(|c: char| c.is_lowercase()) => {
                    first.to_lowercase() + rest
                }
                _ => text.to_owned(),
            };
            match errno_name(errno) {
                Some(name) => write!(f, ": {name} ({text})")?,
                None => write!(f, ": errno {errno} ({text})")?,
            }
        }
        if let Some(note) = &self.note {
            write!(f, ": {note}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// A path as valid, printable text: other bytes become escapes.
pub fn printable(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.chars().any(|c| c.is_control() || c == '\u{fffd}') {
        use std::os::unix::ffi::OsStrExt;
        return path.as_os_str().as_bytes().escape_ascii().to_string();
    }
    text.into_owned()
}

/// The symbol of an errno that a container's set-up meets.
fn errno_name(errno: i32) -> Option<&'static str> {
    ERRNOS.iter().find(|(e, _)| e.raw_os_error() == errno).map(|(_, name)| *name)
}

const ERRNOS: [(Errno, &str); 37] = [
    (Errno::PERM, "EPERM"),
    (Errno::NOENT, "ENOENT"),
    (Errno::SRCH, "ESRCH"),
    (Errno::INTR, "EINTR"),
    (Errno::IO, "EIO"),
    (Errno::NXIO, "ENXIO"),
    (Errno::TOOBIG, "E2BIG"),
    (Errno::NOEXEC, "ENOEXEC"),
    (Errno::BADF, "EBADF"),
    (Errno::CHILD, "ECHILD"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::ACCESS, "EACCES"),
    (Errno::BUSY, "EBUSY"),
    (Errno::EXIST, "EEXIST"),
    (Errno::XDEV, "EXDEV"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOTDIR, "ENOTDIR"),
    (Errno::ISDIR, "EISDIR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::NFILE, "ENFILE"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NOTTY, "ENOTTY"),
    (Errno::TXTBSY, "ETXTBSY"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::ROFS, "EROFS"),
    (Errno::PIPE, "EPIPE"),
    (Errno::NAMETOOLONG, "ENAMETOOLONG"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::NOTEMPTY, "ENOTEMPTY"),
    (Errno::LOOP, "ELOOP"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
    (Errno::DQUOT, "EDQUOT"),
    (Errno::USERS, "EUSERS"),
    (Errno::OVERFLOW, "EOVERFLOW"),
];

/// Names the step of a system call's failure.
pub(crate) trait At<T> {
    /// With what the step was about.
    fn at(self, step: &str, subject: impl AsRef<Path>) -> Result<T, Failure>;
    /// For a step about nothing in particular.
    fn step(self, step: &str) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: &str, subject: impl AsRef<Path>) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, Some(subject.as_ref()), &error.into()))
    }

    fn step(self, step: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, None, &error.into()))
    }
}

/// Why a verb of the runtime failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration says something that cannot be done; `path` is the place in config.json.
    #[error("config.json: {path}: {reason}")]
    Config {
        /// JSON path, such as `linux.namespaces[2].path`.
        path: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A step of the container's own process.
    #[error("{0}")]
    Step(#[from] Failure),
    /// Its process ended without a word.
    #[error(
        "the container's process ended during set-up ({how}); see the kernel's log for an out-of-memory kill"
    )]
    Died {
        /// "signal 9", "code 1".
        how: String,
    },
    /// The cgroup could not be made or used.
    #[error("cgroup: {0}")]
    Cgroup(#[from] berth_cgroup::CgroupError),
    /// `linux.cgroupsPath` cannot be used with the driver.
    #[error("config.json: linux.cgroupsPath: {0}")]
    CgroupPath(#[from] berth_cgroup::PathError),
    /// The filter could not be compiled.
    #[error("config.json: linux.seccomp: {0}")]
    Seccomp(#[from] crate::seccomp::CompileError),
    /// A hook failed.
    #[error("{0}")]
    Hook(#[from] crate::hooks::HookError),
    /// The container is not in the state the verb needs.
    #[error("container {id} {state}")]
    State {
        /// The container.
        id: String,
        /// "is already started", "has ended".
        state: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn names_step_subject_and_errno() {
        let error = io::Error::from_raw_os_error(1);
        let failure = Failure::new("mount", Some(Path::new("/proc")), &error);
        assert_eq!(failure.to_string(), "mount /proc: EPERM (operation not permitted)");
    }

    #[test]
    fn odd_bytes_become_escapes() {
        let path = Path::new(OsStr::from_bytes(b"/bin/\xff\"\n"));
        assert_eq!(printable(path), "/bin/\\xff\\\"\\n");
    }
}
