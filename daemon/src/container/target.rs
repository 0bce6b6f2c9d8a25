//! The PID namespace of another container, held open from the moment it was looked at.

use crate::pod::Error;
use berth_core::ContainerId;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// A namespace in hand: as long as this lives, its path leads to that very namespace, whatever becomes of the process.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    path: String,
    _held: Option<Arc<File>>,
}

impl Target {
    /// Opens the PID namespace of a container's first process.
    ///
    /// # Errors
    /// The process is not (or no longer) the container's.
    pub(super) fn open(pid: u32, id: ContainerId) -> Result<Self, Error> {
        let field = "config.linux.security_context.namespace_options.target_id";
        let gone = |cause: String| Error::invalid(field, format!("container {id} is not running: {cause}"));
        let file = File::open(format!("/proc/{pid}/ns/pid")).map_err(|error| gone(error.to_string()))?;
        // Looked at after it is in hand: another process with this number is in another cgroup.
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))
            .map_err(|error| gone(error.to_string()))?;
        if !groups.contains(id.as_str()) {
            return Err(gone(format!("process {pid} is not in its cgroup")));
        }
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Ok(Self { path, _held: Some(Arc::new(file)) })
    }

    /// Where it is found.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// A path for tables of specs.
    #[cfg(test)]
    pub(crate) fn at(path: &str) -> Self {
        Self { path: path.to_owned(), _held: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_the_containers_is_refused() {
        let id = ContainerId::parse(&"d".repeat(64)).unwrap();
        let error = Target::open(std::process::id(), id).unwrap_err().to_string();
        assert!(error.contains("not in its cgroup"), "{error}");
        assert!(Target::open(u32::MAX, id).is_err());
    }
}
