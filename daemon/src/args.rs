//! Flags and subcommands.

use berth_config::{LogFormat, LogLevel, Overrides};
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Node container runtime for Kubernetes: serves CRI on a unix socket.
#[derive(Debug, Parser)]
#[command(name = "berthd", version)]
pub struct Args {
    /// Configuration file [default: /etc/berth/config.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What must survive a reboot: images, containers' files, records
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// What need not: sockets, bundles, pins
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The socket for the kubelet and crictl
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// How much is logged
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<Level>,
    /// Form of a log line
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<Format>,
    /// Let BERTH_FAULTS in the environment and <state>/faults.sock arm fault points (tests only)
    #[arg(long, hide = true)]
    pub allow_faults: bool,
    /// What to do instead of serving
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do instead of serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The configuration
    Config {
        /// What about it
        #[command(subcommand)]
        act: ConfigAct,
    },
    /// Print version and CRI version
    Version,
    /// Print every fault point and what lies around it
    Faults,
    /// Print a manual page, for `man -l -` or a package
    Man {
        /// Which one
        #[arg(value_name = "PAGE", default_value = "berthd.8")]
        page: Page,
    },
}

/// A manual page.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Page {
    /// The daemon
    #[value(name = "berthd.8")]
    Daemon,
    /// Its configuration file
    #[value(name = "berth-config.toml.5")]
    Config,
}

/// What about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigAct {
    /// Print a commented file with every key at its default
    Default,
    /// Check a file (or the default one) and say what is wrong with it
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// `--log-level`.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[allow(missing_docs, reason = "the names are the words of every logger")]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// `--log-format`.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[allow(missing_docs, reason = "the configuration explains them")]
pub enum Format {
    Text,
    Json,
}

impl Args {
    /// The flags that are stronger than the file.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        Overrides {
            root: self.root.clone(),
            state: self.state.clone(),
            socket: self.socket.clone(),
            log_level: self.log_level.map(|level| match level {
                Level::Error => LogLevel::Error,
                Level::Warn => LogLevel::Warn,
                Level::Info => LogLevel::Info,
                Level::Debug => LogLevel::Debug,
                Level::Trace => LogLevel::Trace,
            }),
            log_format: self.log_format.map(|format| match format {
                Format::Text => LogFormat::Text,
                Format::Json => LogFormat::Json,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_sound() {
        Args::command().debug_assert();
        let args = Args::try_parse_from(["berthd", "--root", "/r", "--log-format", "json"]).unwrap();
        assert_eq!(args.overrides().root, Some("/r".into()));
        assert_eq!(args.overrides().log_format, Some(LogFormat::Json));
        assert!(Args::try_parse_from(["berthd", "--log-level", "loud"]).is_err());
    }
}
