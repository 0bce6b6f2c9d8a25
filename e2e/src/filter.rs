//! A seccomp filter around a program: the newer calls are forbidden, as by an outer runtime or a service manager that does not
//! know them yet.
//!
//! The launcher is the test program itself, executed anew: only programs whose `main` calls [`heed`] can use this.

use anyhow::{Context, bail};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The first word of the launcher's command line.
const FLAG: &str = "--forbid";

/// What a kernel says that does not know a call.
pub const ENOSYS: u16 = 38;
/// What filters say that do not want to lie.
pub const EPERM: u16 = 1;

/// The calls that there is another way for, with their numbers, which are the same on every architecture.
const CALLS: [(&str, u32); 9] = [
    ("open_tree", 428),
    ("move_mount", 429),
    ("fsopen", 430),
    ("fsconfig", 431),
    ("fsmount", 432),
    ("pidfd_open", 434),
    ("clone3", 435),
    ("openat2", 437),
    ("mount_setattr", 442),
];

/// Which calls fail, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    errno: u16,
    calls: Vec<&'static str>,
}

impl Filter {
    /// All of them but these.
    pub fn all_but(errno: u16, spared: &[&str]) -> Self {
        let calls = CALLS.iter().map(|(name, _)| *name).filter(|name| !spared.contains(name)).collect();
        Self { errno, calls }
    }

    /// Each alone, but for these.
    pub fn each_but(errno: u16, spared: &[&str]) -> Vec<Self> {
        Self::all_but(errno, spared).calls.into_iter().map(|call| Self { errno, calls: vec![call] }).collect()
    }

    /// The calls.
    pub fn calls(&self) -> &[&'static str] {
        &self.calls
    }

    /// The same command behind this filter.
    pub fn around(&self, command: &Command) -> anyhow::Result<Command> {
        let mut launcher = Command::new(std::env::current_exe().context("the path of this program")?);
        launcher.arg(FLAG).arg(self.errno.to_string()).arg(self.calls.join(","));
        launcher.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => launcher.env(name, value),
                None => launcher.env_remove(name),
            };
        }
        Ok(launcher)
    }
}

impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} forbidden with errno {}", self.calls.join(","), self.errno)
    }
}

/// Is the launcher if the command line says so: puts the filter around this process and becomes the program. Comes back only to
/// say that this is no launcher, or that it failed.
pub fn heed() -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(FLAG) {
        return None;
    }
    let error = launch(words).err().unwrap_or_else(|| anyhow::anyhow!("the program did not begin"));
    eprintln!("{FLAG}: {error:#}");
    Some(ExitCode::from(126))
}

fn launch(mut words: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let errno = words.next().context("an errno is missing")?.parse()?;
    let mut numbers = Vec::new();
    for name in words.next().context("the calls are missing")?.split(',') {
        match CALLS.iter().find(|(known, _)| *known == name) {
            Some((_, number)) => numbers.push(*number),
            None => bail!("{name}: not one of the calls that there is another way for"),
        }
    }
    let program = words.next().context("the program is missing")?;
    berth_sys::seccomp::install(&instructions(errno, &numbers), 0).context("installing the filter")?;
    Err(Command::new(&program).args(words).exec()).with_context(|| format!("executing {program}"))
}

/// Loads the number of the call, and answers those in the list.
fn instructions(errno: u16, numbers: &[u32]) -> Vec<u8> {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let one = |code: u16, miss: u8, k: u32| {
        let [c0, c1] = code.to_ne_bytes();
        let [k0, k1, k2, k3] = k.to_ne_bytes();
        [c0, c1, 0, miss, k0, k1, k2, k3]
    };
    let answer = one(RETURN, 0, ERRNO | u32::from(errno));
    let asked = numbers.iter().flat_map(|number| [one(JUMP_IF_EQUAL, 1, *number), answer]);
    [one(LOAD, 0, 0)].into_iter().chain(asked).chain([one(RETURN, 0, ALLOW)]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{ENOSYS, Filter, instructions};

    #[test]
    fn all_each_and_but() {
        assert_eq!(Filter::all_but(ENOSYS, &[]).calls.len(), 9);
        assert!(!Filter::all_but(ENOSYS, &["openat2"]).calls.contains(&"openat2"));
        assert!(Filter::each_but(ENOSYS, &["openat2"]).iter().all(|filter| filter.calls.len() == 1));
    }

    #[test]
    fn one_answer_for_each_call() {
        assert_eq!(instructions(1, &[428, 429]).len(), 8 * (1 + 2 * 2 + 1));
    }
}
