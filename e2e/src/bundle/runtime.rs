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
    /// For benchmarks.
    Crun,
    /// For benchmarks.
    Youki,
}

impl Runtime {
    /// How it is called in what is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Berth => "berth",
            Self::Runc => "runc",
            Self::Crun => "crun",
            Self::Youki => "youki",
        }
    }

    /// Its program.
    pub fn program(self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Berth => paths::product("berth-shim"),
            Self::Runc => paths::peer("runc"),
            Self::Crun => paths::package_file("crun", "usr/bin/crun"),
            Self::Youki => paths::peer("youki"),
        }
    }

    /// The words that stand between its program and the first flag.
    pub const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Berth => &["oci"],
            Self::Runc | Self::Crun | Self::Youki => &[],
        }
    }

    /// What its environment needs besides: a package that is only unpacked finds its library beside it.
    pub fn environment(self) -> Option<(&'static str, PathBuf)> {
        let library = paths::tools().join("deb/libyajl2/usr/lib/x86_64-linux-gnu");
        (self == Self::Crun).then_some(("LD_LIBRARY_PATH", library))
    }

    /// The command without any flag.
    pub fn command(self) -> anyhow::Result<Command> {
        let mut command = Command::new(self.program()?);
        command.args(self.words()).envs(self.environment());
        Ok(command)
    }
}
