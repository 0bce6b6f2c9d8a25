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
        for process in related(leader, &processes) {
            if found.contains_key(&process.pid) {
                continue;
            }
            let Ok(handle) = pidfd::open(process.pid) else { continue };
            // The number may have passed to a stranger meanwhile: the handle is his then, and he is no relative.
            if read(process.pid).is_some_and(|now| now.born == process.born) {
                let _gone = pidfd::send_signal(&handle, SIGSTOP);
                found.insert(process.pid, handle);
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
    /// In ticks since boot: with the number, this names a process.
    born: u64,
}

fn read(pid: i32) -> Option<Process> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &text)
}

/// `pid (name) state parent group session …`; the name may hold anything, parentheses too.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut words = stat[end + 1..].split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let mut number = |skip: usize| std::str::from_utf8(words.nth(skip)?).ok()?.parse::<u64>().ok();
    let (parent, session, born) = (number(0)?, number(1)?, number(15)?);
    Some(Process { pid, parent: i32::try_from(parent).ok()?, session: i32::try_from(session).ok()?, born })
}

/// The others that belong to `leader`.
fn related(leader: i32, processes: &[Process]) -> Vec<Process> {
    let mut family: Vec<Process> = Vec::new();
    let mut of = leader;
    let mut at = 0;
    loop {
        for process in processes.iter().filter(|process| process.pid != leader) {
            let belongs = process.parent == of || process.session == leader;
            if belongs && !family.iter().any(|known| known.pid == process.pid) {
                family.push(*process);
            }
        }
        let Some(next) = family.get(at) else { return family };
        of = next.pid;
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_mislead() {
        let stat = b"7 (a) b (c) S 3 4 5 0 -1 4194304 0 0 0 0 1 2 3 4 20 0 1 0 8765 99 88";
        assert_eq!(parse(7, stat), Some(Process { pid: 7, parent: 3, session: 5, born: 8765 }));
        assert_eq!(parse(7, b"7 (a"), None);
    }

    #[test]
    fn family_is_by_parent_and_by_session() {
        let process = |pid, parent, session| Process { pid, parent, session, born: 1 };
        let processes = [
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 11, 12),
            process(13, 12, 12),
            process(14, 1, 10),
            process(15, 14, 15),
            process(20, 1, 20),
        ];
        let mut family: Vec<i32> = related(10, &processes).iter().map(|process| process.pid).collect();
        family.sort_unstable();
        assert_eq!(family, [11, 12, 13, 14, 15]);
    }
}
