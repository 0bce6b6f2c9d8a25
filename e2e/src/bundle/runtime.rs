//! Which low-level runtime.

use crate::paths;
use std::path::PathBuf;
use std::process::Command;

/// A low-level runtime with runc's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Ours: `berth-shim oci`.
    Berth,
    /// The reference.
    Runc,
}

impl Runtime {
    /// How it is called in what is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Berth => "berth",
            Self::Runc => "runc",
        }
    }

    /// Its program.
    pub fn program(self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Berth => paths::product("berth-shim"),
            Self::Runc => paths::peer("runc"),
        }
    }

    /// The words that stand between its program and the first flag.
    pub const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Berth => &["oci"],
            Self::Runc => &[],
        }
    }

    /// The command without any flag.
    pub fn command(self) -> anyhow::Result<Command> {
        let mut command = Command::new(self.program()?);
        command.args(self.words());
        Ok(command)
    }
}
