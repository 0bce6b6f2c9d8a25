//! What is known of a container between two commands: a directory with its state, its configuration and its start socket.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use berth_core::oci::{LinuxSeccomp, Spec};
use berth_runtime::seccomp::Program;
use serde::{Deserialize, Serialize};

use super::{About, Global, OciError, from_json};
use crate::regular::read;

/// The record of a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) bundle: PathBuf,
    pub(crate) rootfs: PathBuf,
    /// The first process, and when it began in clock ticks after boot: both together name it for ever.
    pub(crate) pid: i32,
    pub(crate) started_ticks: u64,
    /// Nanoseconds since the epoch.
    pub(crate) created: i64,
    pub(crate) systemd: bool,
    pub(crate) cgroup: String,
    pub(crate) owner: String,
    /// Whether later commands have to do what the configuration says: hooks, a group of resctrl. Without that they need not read it.
    pub(crate) later: bool,
}

/// Keeps other commands off a container while it lives.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Lets others work on the container; the result names its directory for ever, whatever has its name later.
    pub(crate) fn release(self) -> Result<File, OciError> {
        rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock)
            .map_err(|error| OciError::State(format!("release a container's directory: {error}")))?;
        Ok(self.0)
    }
}

/// A container's directory.
#[derive(Debug, Clone)]
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    /// The directory of `id`, whether it is there or not.
    pub(crate) fn of(global: &Global, id: &str) -> Result<Self, OciError> {
        let fine = |c: char| c.is_ascii_alphanumeric() || "_+-.".contains(c);
        if id.is_empty() || id.len() > 1024 || id.starts_with('.') || !id.chars().all(fine) {
            return Err(OciError::Usage(format!("{id:?} is no id: letters, digits and _ + - . make one")));
        }
        Ok(Self(global.root.join(id)))
    }

    /// Makes the directory; whoever comes second is refused.
    pub(crate) fn claim(global: &Global, id: &str) -> Result<Self, OciError> {
        let place = Self::of(global, id)?;
        // The environment of a container may hold secrets, and its start socket is as good as the container.
        let private = |parents| {
            let mut builder = DirBuilder::new();
            builder.recursive(parents).mode(0o700);
            builder
        };
        private(true).create(&global.root).about("make directory", &global.root)?;
        match private(false).create(&place.0) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(OciError::State(format!("container with id {id} exists already")))
            }
            other => other.about("make directory", &place.0).map(|()| place),
        }
    }

    /// Waits until no other command works on the container, and keeps others waiting while the result lives.
    pub(crate) fn lock(&self) -> Result<Lock, OciError> {
        self.lock_if_there()?.ok_or_else(|| self.unknown())
    }

    /// The same; none where there is no container.
    pub(crate) fn lock_if_there(&self) -> Result<Option<Lock>, OciError> {
        match File::open(&self.0) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            // Who waited for a deletion holds a directory without a name; the name may be another container's by now.
            opened => self.relock(opened.about("open", &self.0)?),
        }
    }

    /// The lock again, by the directory that it was on; none if the container was deleted meanwhile.
    pub(crate) fn relock(&self, dir: File) -> Result<Option<Lock>, OciError> {
        rustix::fs::flock(&dir, rustix::fs::FlockOperation::LockExclusive).about("lock", &self.0)?;
        let held = dir.metadata().about("look at", &self.0)?;
        let named = std::fs::symlink_metadata(&self.0);
        let same = named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()));
        Ok(same.then_some(Lock(dir)))
    }

    pub(crate) fn unknown(&self) -> OciError {
        let id = self.0.file_name().unwrap_or_default().to_string_lossy();
        OciError::State(format!("container {id} does not exist"))
    }

    pub(crate) fn record(&self) -> Result<Record, OciError> {
        let path = self.0.join("state.json");
        let text = read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => self.unknown(),
            _ => OciError::State(format!("read {}: {error}", path.display())),
        })?;
        from_json(&path.display().to_string(), &text)
    }

    /// Whether its maker was killed before there was a record: nothing can have been made by then.
    pub(crate) fn is_unbegun(&self) -> bool {
        let entries = std::fs::read_dir(&self.0);
        entries.is_ok_and(|all| all.flatten().all(|entry| entry.file_name() == "state.json.new"))
    }

    /// Writes the record whole or not at all.
    pub(crate) fn save(&self, record: &Record) -> Result<(), OciError> {
        let (fresh, path) = (self.0.join("state.json.new"), self.0.join("state.json"));
        let text = serde_json::to_vec(record)
            .map_err(|error| OciError::Json { path: path.display().to_string(), error })?;
        write(&fresh, &text)?;
        std::fs::rename(&fresh, &path).about("rename", &path)
    }

    /// The configuration, as it was when the container was made, without the rules of its filter.
    pub(crate) fn spec(&self) -> Result<Spec, OciError> {
        read_spec(&self.0.join("config.json"))
    }

    /// Keeps a configuration for later commands. The rules of the filter are most of it, and are kept compiled.
    pub(crate) fn save_spec(&self, spec: &mut Spec) -> Result<(), OciError> {
        let path = self.0.join("config.json");
        let rules = filter_of(spec).and_then(|seccomp| seccomp.syscalls.take());
        let text = serde_json::to_vec(spec);
        if let Some(seccomp) = filter_of(spec) {
            seccomp.syscalls = rules;
        }
        write(&path, &text.map_err(|error| OciError::Json { path: path.display().to_string(), error })?)
    }

    /// Keeps the compiled filter for whoever joins the container later.
    pub(crate) fn save_filter(&self, filter: Option<&Program>) -> Result<(), OciError> {
        filter.map_or(Ok(()), |filter| write(&self.0.join(FILTER), &filter.kept()))
    }

    /// The filter of a container whose configuration has one. Without it nothing may join.
    pub(crate) fn filter(&self, spec: &Spec) -> Result<Option<Program>, OciError> {
        let path = self.0.join(FILTER);
        let wanted = spec.linux().as_ref().is_some_and(|linux| linux.seccomp().is_some());
        let kept = match read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !wanted => return Ok(None),
            other => other.about("read", &path)?,
        };
        let broken =
            || OciError::State(format!("{} is no compiled filter; delete the container", path.display()));
        Program::from_kept(&kept).ok_or_else(broken).map(Some)
    }

    /// The socket on which a created container waits.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("start.sock")
    }

    /// Listens there. The name is bound through a descriptor, since a socket's path has 108 bytes only.
    pub(crate) fn listen(&self) -> Result<OwnedFd, OciError> {
        let dir = File::open(&self.0).about("open", &self.0)?;
        let path = short(&dir, "start.sock");
        let listener = UnixListener::bind(&path).about("listen on", self.socket())?;
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, mode).about("protect", self.socket())?;
        Ok(listener.into())
    }

    /// Gives the order to start, and removes the socket.
    pub(crate) fn start(&self) -> Result<(), OciError> {
        let dir = File::open(&self.0).map_err(|_| self.unknown())?;
        let outcome = berth_runtime::start_by_socket(&short(&dir, "start.sock"));
        let _ = std::fs::remove_file(self.socket());
        Ok(outcome?)
    }

    /// The record last: whoever is killed in between leaves what a later `delete --force` understands.
    pub(crate) fn remove(&self) -> Result<(), OciError> {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if entry.file_name() != "state.json" {
                let _the_whole_goes_next = std::fs::remove_file(entry.path());
            }
        }
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).about("remove", &self.0),
            _ => Ok(()),
        }
    }
}

/// The name of the compiled filter.
const FILTER: &str = "seccomp.bpf";

fn filter_of(spec: &mut Spec) -> Option<&mut LinuxSeccomp> {
    spec.linux.as_mut()?.seccomp.as_mut()
}

/// Writes a file that only root can read, whatever the umask.
fn write(path: &Path, text: &[u8]) -> Result<(), OciError> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).about("write", path)?;
    file.write_all(text).about("write", path)
}

fn short(dir: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}

/// Reads a configuration.
pub(crate) fn read_spec(path: &Path) -> Result<Spec, OciError> {
    let text = read(path).about("read", path)?;
    from_json(&path.display().to_string(), &text)
}
