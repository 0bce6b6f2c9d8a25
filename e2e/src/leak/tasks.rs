//! Processes of a node: by a path in their command line, or by their cgroup.

use super::Owned;
use crate::procfs::{self, Process, processes};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Processes that belong to the node; this program and what it runs by hand do not.
pub(super) fn find(owned: &Owned) -> Vec<Process> {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let mine = |process: &Process| {
        process.pid != me
            && (process.command.contains(&owned.name)
                || process.cgroups.contains(&owned.name)
                // A plugin that hangs has nothing of the node's but its environment.
                || procfs::variable(process.pid, "CNI_CONTAINERID").is_some_and(|id| owned.knows(&id))
                || process.cgroups.split(['/', '\n']).any(|name| owned.knows(name)))
    };
    processes().into_iter().filter(mine).collect()
}

/// kill -9 until none is left, for two seconds.
pub(super) fn kill(owned: &Owned) {
    let begun = Instant::now();
    loop {
        let left = find(owned);
        if left.is_empty() || begun.elapsed() > Duration::from_secs(2) {
            return;
        }
        for pid in left.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            // It may just have ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
