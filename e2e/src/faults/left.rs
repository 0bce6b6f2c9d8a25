//! What pods left behind on a node whose daemon still runs.

use crate::leak;
use crate::node::Node;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// Directories with one entry per pod or container.
const PER_POD: [&str; 3] = ["root/containers", "state/p", "state/s"];

/// What is left after a while, except for what belongs to the daemon itself and what is `stale` already.
pub async fn left_of_pods(node: &Node, stale: &BTreeSet<String>, limit: Duration) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let left: Vec<String> = find(node).into_iter().filter(|what| !stale.contains(what)).collect();
        if left.is_empty() || begun.elapsed() > limit {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

fn find(node: &Node) -> Vec<String> {
    let dir = node.dir();
    let mut own = vec![format!("link {}", node.tag().bridge())];
    own.extend(["root", "state"].map(|name| format!("mount {}", dir.join(name).display())));
    let daemon = node.daemon_pid().map(|pid| format!("process {pid}: ")).unwrap_or_default();
    let mut left = leak::find(&node.owned());
    left.retain(|what| !own.contains(what) && !what.starts_with("nft table") && !what.starts_with(&daemon));
    for place in PER_POD {
        let entries = fs::read_dir(dir.join(place)).into_iter().flatten().flatten();
        left.extend(entries.map(|entry| format!("file {}", entry.path().display())));
    }
    left.sort();
    left
}
