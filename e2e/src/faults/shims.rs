//! Shims as the process table shows them.

use crate::node::Node;
use crate::procfs::{Process, processes};
use rustix::process::{Pid, Signal, kill_process};

/// The shims of a node; with `pod` only that pod's.
pub fn shims(node: &Node, pod: Option<&str>) -> Vec<Process> {
    let name = node.tag().name();
    let mine = |process: &Process| {
        let words = &process.command;
        words.contains(" serve ") && words.contains(&name) && pod.is_none_or(|id| words.contains(id))
    };
    processes().into_iter().filter(mine).collect()
}

/// kill -9 for the shims of a pod, or of the node; how many there were.
pub fn kill_shims(node: &Node, pod: Option<&str>) -> usize {
    let found = shims(node, pod);
    for pid in found.iter().filter_map(|process| Pid::from_raw(process.pid)) {
        // It may just have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
    found.len()
}

/// The sandbox that a shim belongs to.
pub fn sandbox_of(shim: &Process) -> Option<String> {
    shim.command.split(' ').skip_while(|word| *word != "--sandbox").nth(1).map(str::to_owned)
}
