//! Killing a program with all it has started.
//!
//! A descendant is found by its parent, and, when that has gone already, by its session: the program of an exec
//! leads one. Each is stopped when found, so that nobody forks away from the search, which ends when a round
//! finds nobody new.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use berth_sys::pidfd;

const SIGKILL: i32 = 9;
const SIGSTOP: i32 = 19;

/// Rounds of the search; each finds at least one process that was not there before.
const ROUNDS: usize = 64;

/// Kills `leader` and everything that descends from it or is of its session, among `members` (the container's processes).
pub(crate) fn kill(leader: i32, handle: &OwnedFd, members: impl Fn() -> Vec<i32>) {
    let _gone = pidfd::send_signal(handle, SIGSTOP);
    let mut found: BTreeMap<i32, OwnedFd> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let before = found.len();
        let processes: Vec<Process> = members().into_iter().filter_map(read).collect();
        for pid in related(leader, &processes) {
            if let (false, Ok(handle)) = (found.contains_key(&pid), pidfd::open(pid)) {
                let _gone = pidfd::send_signal(&handle, SIGSTOP);
                found.insert(pid, handle);
            }
        }
        if found.len() == before {
            break;
        }
    }
    for handle in found.values().chain([handle]) {
        let _gone = pidfd::send_signal(handle, SIGKILL);
    }
}

/// What /proc tells of one process, in this process's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
}

fn read(pid: i32) -> Option<Process> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &text)
}

/// `pid (name) state parent group session …`; the name may hold anything, parentheses too.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut words = stat[end + 1..].split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse().ok();
    let parent = number()?;
    let _group: i32 = number()?;
    Some(Process { pid, parent, session: number()? })
}

/// The others that belong to `leader`.
fn related(leader: i32, processes: &[Process]) -> Vec<i32> {
    let mut family = vec![leader];
    let mut at = 0;
    while let Some(of) = family.get(at).copied() {
        for process in processes {
            let belongs = process.parent == of || process.session == leader;
            if belongs && !family.contains(&process.pid) {
                family.push(process.pid);
            }
        }
        at += 1;
    }
    family.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_mislead() {
        let stat = b"7 (a) b (c) S 3 4 5 0 -1 4194304 0 0";
        assert_eq!(parse(7, stat), Some(Process { pid: 7, parent: 3, session: 5 }));
        assert_eq!(parse(7, b"7 (a"), None);
    }

    #[test]
    fn family_is_by_parent_and_by_session() {
        let process = |pid, parent, session| Process { pid, parent, session };
        let processes = [
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 11, 12),
            process(13, 12, 12),
            process(14, 1, 10),
            process(15, 14, 15),
            process(20, 1, 20),
        ];
        let mut family = related(10, &processes);
        family.sort_unstable();
        assert_eq!(family, [11, 12, 13, 14, 15]);
    }
}
