//! Processes as /proc shows them: whose they are, where they belong, what they cost.

use std::fs;
use std::path::Path;

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// Arguments, joined by spaces.
    pub command: String,
    /// The lines of its cgroup file.
    pub cgroups: String,
}

/// All processes that can be read, kernel threads left out.
pub fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(read).collect()
}

/// One process, if it is still there and not a kernel thread.
pub fn read(pid: i32) -> Option<Process> {
    let base = Path::new("/proc").join(pid.to_string());
    let raw = fs::read(base.join("cmdline")).ok()?;
    let command = String::from_utf8_lossy(&raw).replace('\0', " ").trim().to_owned();
    let cgroups = fs::read_to_string(base.join("cgroup")).ok()?;
    let stat = fs::read_to_string(base.join("stat")).ok()?;
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    let kernel = command.is_empty() && parent <= 2;
    (!kernel).then_some(Process { pid, parent, command, cgroups })
}

/// A variable of the environment that a process was started with.
pub fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut lines = environment.split(|byte| *byte == 0);
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The host's pid of the first process of the PID namespace of the container with this id.
pub fn init_of(container: &str) -> Option<i32> {
    let all = processes();
    let mut mine = all.iter().filter(|process| process.cgroups.contains(container));
    mine.find(|process| first_in_namespace(process.pid)).map(|process| process.pid)
}

fn first_in_namespace(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("NSpid:"));
    line.is_some_and(|line| line.split_whitespace().count() > 2 && line.ends_with("\t1"))
}

/// Proportional set size of a process in KiB.
pub fn pss_kib(pid: i32) -> Option<u64> {
    field_kib(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Resident memory of a process that no file is behind, in KiB.
pub fn anonymous_kib(pid: i32) -> Option<u64> {
    field_kib(&format!("/proc/{pid}/status"), "RssAnon:")
}

fn field_kib(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// CPU time that a process and its waited-for children used, in milliseconds.
pub fn cpu_ms(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11..15)?.iter().filter_map(|f| f.parse::<u64>().ok()).sum();
    // The kernel tells user space a hundred ticks a second, whatever its own rate.
    Some(ticks * 10)
}

#[cfg(test)]
mod tests {
    use super::{anonymous_kib, cpu_ms, processes, pss_kib, read};

    #[test]
    fn this_process_is_seen() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let me = read(pid).unwrap();
        assert!(me.parent > 0 && !me.command.is_empty(), "{me:?}");
        assert!(processes().iter().any(|p| p.pid == pid));
        let (pss, own) = (pss_kib(pid).unwrap(), anonymous_kib(pid).unwrap());
        assert!(pss > 0 && own > 0 && pss < 1 << 30, "{pss} {own}");
        assert!(cpu_ms(pid).is_some());
    }
}
