//! `kill`: a signal by name or number.

use std::ffi::OsString;

use super::container::{Container, Status};
use super::flags::Flag;
use super::{Global, OciError, flags};

const FLAGS: &[Flag] = &[Flag::switch("all", "a")];

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(FLAGS, args)?;
    let container = Container::load(global, flags.at_most(2)?.id()?)?;
    let signal = number(flags.rest.get(1).map_or("TERM", String::as_str))?;
    if flags.is_set("all") {
        let cgroup = container.cgroup()?;
        return Ok(berth_runtime::kill_all(&cgroup, signal)?);
    }
    // By runc's own words callers know that there is nothing left to be killed.
    let Some(pidfd) = container.process() else {
        return Err(OciError::State(format!("container {}: container not running", container.record.id)));
    };
    berth_runtime::kill(&pidfd, signal)?;
    // A frozen process of v1 dies when it is thawed, not before.
    if signal == 9 && container.status() == Status::Paused {
        container.cgroup()?.thaw()?;
    }
    Ok(())
}

/// The number of `TERM`, `SIGTERM`, `15`, `RTMIN+3`.
pub(crate) fn number(text: &str) -> Result<i32, OciError> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let bad = || OciError::Usage(format!("{text:?} is no signal"));
    if let Ok(number) = text.parse() {
        return if (0..=64).contains(&number) { Ok(number) } else { Err(bad()) };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(at) = NAMES.iter().position(|n| *n == name) {
        return Ok(at as i32 + 1);
    }
    let real = |base: i32, rest: &str| {
        if rest.is_empty() { Some(base) } else { Some(base + rest.parse::<i32>().ok()?) }
    };
    let number = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(rest), _) => real(34, rest),
        (_, Some(rest)) => real(64, rest),
        _ => None,
    };
    number.filter(|n| (34..=64).contains(n)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn names_and_numbers() {
        let of = |text: &str| number(text).ok();
        assert_eq!(
            [of("TERM"), of("sigkill"), of("9"), of("SIGRTMIN+3"), of("RTMAX-1")],
            [15, 9, 9, 37, 63].map(Some)
        );
        assert_eq!([of("NOPE"), of("65"), of("RTMIN-1"), of("-1"), of("")], [None; 5]);
    }
}
