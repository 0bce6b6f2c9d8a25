//! The leak checker: what of a node's own is still there after its pods and its daemon are gone.
//!
//! It looks for names that only this node has, so that other runs on the machine disturb nothing.

mod cgroups;
mod links;
mod mounts;
mod netns;
mod tables;
mod tasks;

pub use crate::node::remove_cgroup;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is a node's own.
#[derive(Clone, Debug)]
pub struct Owned {
    /// `berth-e2e-<run>-<node>`: its cgroup parent and its folder's name.
    pub name: String,
    /// Its bridge.
    pub bridge: String,
    /// Its folder.
    pub dir: PathBuf,
    /// Every sandbox and container id that it was seen to have.
    pub ids: BTreeSet<String>,
}

impl Owned {
    /// Whether a cgroup's name is that of one of its sandboxes or containers: `<id>` or `berth-<id>.scope`.
    fn knows(&self, name: &str) -> bool {
        let bare = name.strip_suffix(".scope").unwrap_or(name);
        let id = bare.get(bare.len().saturating_sub(64)..).unwrap_or(bare);
        // What is found is killed: a word that is no full id, the root group's empty name above all, is nobody's.
        is_full_id(id) && self.ids.contains(id)
    }
}

/// 64 lower-case hex digits.
pub(crate) fn is_full_id(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// What is left now, sorted, one line each.
pub fn find(owned: &Owned) -> Vec<String> {
    let mut left = Vec::new();
    left.extend(tasks::find(owned).iter().map(|p| format!("process {}: {}", p.pid, p.command)));
    left.extend(mounts::find(owned).iter().map(|m| format!("mount {}", m.display())));
    left.extend(netns::find(owned).iter().map(|n| format!("netns {}", n.display())));
    left.extend(cgroups::find(owned).iter().map(|c| format!("cgroup {}", c.display())));
    left.extend(links::find(owned).iter().map(|l| format!("link {l}")));
    left.extend(tables::find(owned).iter().map(|t| format!("nft table inet {t}")));
    left.sort();
    left
}

/// What is still left after a while: the kernel takes some things down after it has said yes.
pub async fn wait_clean(owned: &Owned, limit: Duration) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let left = find(owned);
        if left.is_empty() || begun.elapsed() > limit {
            return left.into_iter().map(|what| format!("left behind: {what}")).collect();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Takes down what is left, in the order in which it can go.
pub fn force(owned: &Owned) {
    tasks::kill(owned);
    mounts::unmount(owned);
    netns::remove(owned);
    cgroups::remove(owned);
    links::remove(owned);
    tables::remove(owned);
}

/// Runs a small program to its end, quietly. Taking down must go on past any failure.
fn quietly(program: &str, args: &[&str]) -> Option<String> {
    let mut command = std::process::Command::new(program);
    let output = command.args(args).stdin(std::process::Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_ids_are_anybodys() {
        let id = "0123456789abcdef".repeat(4);
        let ids = ["", "0123", "/", id.as_str()].map(str::to_owned).into();
        let owned = Owned { name: "n".to_owned(), bridge: "b".to_owned(), dir: PathBuf::new(), ids };
        assert!(owned.knows(&id) && owned.knows(&format!("berth-{id}.scope")));
        // The root group shows as an empty name in /proc/<pid>/cgroup.
        assert!(!owned.knows("") && !owned.knows("0123") && !owned.knows("/"));
    }
}
