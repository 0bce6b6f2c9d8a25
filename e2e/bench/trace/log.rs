//! What strace writes, one line a call; calls that others interrupted come in two lines.

use std::collections::BTreeMap;
use std::time::Duration;

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) pid: u32,
    /// Seconds since the epoch.
    pub(super) at: f64,
    pub(super) name: String,
    /// The call as strace shows it, up to its arguments' end or the interruption.
    pub(super) text: String,
    pub(super) took: Duration,
}

/// A whole log.
pub(super) struct Log(Vec<Call>);

impl Log {
    /// Reads one; lines that are no calls (signals, ends) are passed over.
    pub(super) fn parse(text: &str) -> Self {
        let mut calls: Vec<Call> = Vec::new();
        let mut open: BTreeMap<u32, usize> = BTreeMap::new();
        for (pid, at, rest) in text.lines().filter_map(head) {
            if rest.starts_with("<... ") {
                if let Some(call) = open.remove(&pid).and_then(|index| calls.get_mut(index)) {
                    call.took = took(rest);
                }
            } else if let Some(name) = rest.split_once('(').map(|(name, _)| name).filter(|name| is_name(name))
            {
                if rest.ends_with("<unfinished ...>") {
                    open.insert(pid, calls.len());
                }
                let text = rest.rsplit_once(" = ").map_or(rest, |(text, _)| text).trim().to_owned();
                calls.push(Call { pid, at, name: name.to_owned(), text, took: took(rest) });
            }
        }
        Self(calls)
    }

    pub(super) fn calls(self) -> Vec<Call> {
        self.0
    }
}

fn head(line: &str) -> Option<(u32, f64, &str)> {
    let (pid, rest) = line.split_once(' ')?;
    let (at, rest) = rest.trim_start().split_once(' ')?;
    Some((pid.parse().ok()?, at.parse().ok()?, rest))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The time at the line's end, `<0.000123>`.
fn took(line: &str) -> Duration {
    let seconds = line.rsplit_once('<').and_then(|(_, end)| end.strip_suffix('>')?.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::Log;
    use std::time::Duration;

    #[test]
    fn calls_in_one_line_and_in_two() {
        let calls = Log::parse(
            "7  1.500000 openat(AT_FDCWD, \"x\", O_RDONLY) = 3 <0.000020>\n\
             7  1.600000 clone3({flags=0} <unfinished ...>\n\
             8  1.700000 getpid() = 8 <0.000001>\n\
             7  1.800000 <... clone3 resumed>) = 8 <0.200000>\n\
             8  1.900000 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
             8  1.900000 +++ exited with 0 +++\n",
        )
        .calls();
        let seen: Vec<_> = calls.iter().map(|call| (call.pid, call.name.as_str(), call.took)).collect();
        let micros = Duration::from_micros;
        assert_eq!(
            seen,
            [(7, "openat", micros(20)), (7, "clone3", micros(200_000)), (8, "getpid", micros(1))]
        );
        assert_eq!(calls[0].text, "openat(AT_FDCWD, \"x\", O_RDONLY)");
    }
}
