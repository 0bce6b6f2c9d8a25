//! A group of its own for an exec that has a time-out, so that nothing it starts escapes the kill: a directory in the
//! unified tree, below the container's. It is made only where it harms nobody: on a hybrid machine, where that tree
//! controls nothing, and on v2 if the container itself cannot make groups below its own.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_cgroup::Mode;
use berth_core::oci::{Mount, Spec};
use berth_runtime::Created;

/// A killed process needs a moment before its group can be removed.
const REMOVE_TRIES: u32 = 20;
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The group of one exec.
#[derive(Debug)]
pub(crate) struct KillGroup {
    path: PathBuf,
}

impl KillGroup {
    /// Makes a group, with its directory opened, or none where it might harm or cannot be made.
    pub(crate) fn make(built: &Created) -> Option<(KillGroup, OwnedFd)> {
        let harmless = match built.cgroup.mode() {
            Mode::V1 => false,
            Mode::Hybrid => true,
            Mode::V2 => !manages_groups(&built.context.spec),
        };
        // A group below one that was killed, or in a container that has none, is none: the exec falls back to a walk.
        let parent = built.cgroup.unified_dir().and(built.cgroup.unified_path()).filter(|_| harmless)?;
        let path = parent.join(format!("exec-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).ok()?;
        let group = KillGroup { path };
        // Kernels before 5.14 cannot kill a group at once.
        let directory = group.path.join("cgroup.kill").exists().then(|| File::open(&group.path).ok());
        match directory.flatten() {
            Some(directory) => Some((group, directory.into())),
            None => {
                group.remove();
                None
            }
        }
    }

    /// Kills everything in it.
    pub(crate) fn kill(&self) {
        if let Err(error) = fs::write(self.path.join("cgroup.kill"), "1") {
            crate::say!("kill {}: {error}", self.path.display());
        }
    }

    /// Removes it and says whether it is gone. Something may live on in it: then it is for a later try, or goes with
    /// the container.
    pub(crate) fn remove(&self) -> bool {
        for _ in 0..REMOVE_TRIES {
            match fs::remove_dir(&self.path) {
                Ok(()) => return true,
                Err(error) if error.kind() == ErrorKind::NotFound => return true,
                Err(_) if self.is_dying() => std::thread::sleep(REMOVE_PAUSE),
                Err(_) => return false,
            }
        }
        false
    }

    fn is_dying(&self) -> bool {
        fs::read(self.path.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty())
    }
}

/// Whether the container sees the cgroup tree in a way that lets it write there.
fn manages_groups(spec: &Spec) -> bool {
    let writable = |mount: &Mount| {
        let options = mount.options().as_deref().unwrap_or_default();
        let kind = mount.typ().as_deref().unwrap_or_default();
        let tree = kind.starts_with("cgroup") || mount.destination().starts_with("/sys/fs/cgroup");
        tree && !options.iter().any(|option| option == "ro")
    };
    spec.mounts().iter().flatten().any(writable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(mounts: &str) -> Spec {
        serde_json::from_str(&format!(r#"{{"ociVersion":"1.2.0","mounts":[{mounts}]}}"#)).unwrap()
    }

    #[test]
    fn who_may_write_to_the_tree_gets_no_group_of_ours() {
        let mount = |options: &str| {
            format!(
                r#"{{"destination":"/sys/fs/cgroup","type":"cgroup","source":"cgroup","options":[{options}]}}"#
            )
        };
        assert!(manages_groups(&spec(&mount(r#""rw","nosuid""#))));
        assert!(manages_groups(&spec(
            r#"{"destination":"/sys/fs/cgroup","source":"/sys/fs/cgroup","options":["rbind"]}"#
        )));
        assert!(!manages_groups(&spec(&mount(r#""nosuid","ro""#))));
        assert!(!manages_groups(&spec("")));
    }
}
