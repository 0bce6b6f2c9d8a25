//! The OCI command line: what calls runc can call us. Same commands, flags, files and exit codes.

mod build;
mod console;
pub(crate) mod container;
mod create;
mod delete;
mod events;
mod exec;
pub(crate) mod features;
mod flags;
mod help;
mod kill;
mod list;
mod log;
mod pause;
mod ps;
mod resources;
mod run;
mod spec;
mod start;
mod state;
mod store;
mod subgroup;
mod update;
mod wait;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_cgroup::Driver;
use flags::{Flag, Parsed};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OciError {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// It does not even consist of the words and flags that the command takes.
    #[error("{0}")]
    Words(String),
    /// There is no such command.
    #[error("no such command: {0}; see --help")]
    NoCommand(String),
    /// Only how it is called was asked; with the flags of the command.
    #[error("see --help")]
    Help(Vec<Flag>),
    /// The container is not there, or not in the right state.
    #[error("{0}")]
    State(String),
    /// A file of ours or of the caller's.
    #[error("{what} {path}: {error}")]
    File {
        /// "read", "write".
        what: &'static str,
        /// The file.
        path: String,
        /// The system's answer.
        error: std::io::Error,
    },
    /// JSON that cannot be understood or written.
    #[error("{path}: {error}")]
    Json {
        /// The file.
        path: String,
        /// Line and column or the place in it, and the reason.
        error: serde_json::Error,
    },
    /// The runtime's word.
    #[error("{0}")]
    Runtime(#[from] berth_runtime::Error),
    /// The cgroup's word.
    #[error("cgroup: {0}")]
    Cgroup(#[from] berth_cgroup::CgroupError),
    /// `cgroupsPath` and `--systemd-cgroup` do not go together.
    #[error("linux.cgroupsPath: {0}")]
    CgroupPath(#[from] berth_cgroup::PathError),
}

/// Adds what a file operation was about.
pub(crate) trait About<T> {
    fn about(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T, OciError>;
}

impl<T, E: Into<std::io::Error>> About<T> for Result<T, E> {
    fn about(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T, OciError> {
        self.map_err(|error| OciError::File {
            what,
            path: path.into().to_string_lossy().into_owned(),
            error: error.into(),
        })
    }
}

/// Reads JSON that somebody else wrote; a refusal names the place in it.
pub(crate) fn from_json<T: serde::de::DeserializeOwned>(file: &str, text: &[u8]) -> Result<T, OciError> {
    serde_json::from_slice(text).map_err(|error| OciError::Json { path: file.to_owned(), error })
}

/// What the flags before the command say.
#[derive(Debug)]
pub(crate) struct Global {
    /// Where the containers' state is.
    pub(crate) root: PathBuf,
    /// What `linux.cgroupsPath` is written for.
    pub(crate) driver: Driver,
    /// Where errors go besides standard error.
    pub(crate) log: log::Log,
}

const FLAGS: &[Flag] = &[
    Flag::switch("debug", ""),
    Flag::value("log", ""),
    Flag::value("log-format", ""),
    Flag::value("root", ""),
    Flag::switch("systemd-cgroup", ""),
    Flag::value("rootless", ""),
    Flag::value("criu", ""),
    Flag::switch("version", "v"),
    Flag::switch("help", "h"),
];

/// Runs one command; `args` are those after `oci`.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let global = match flags::parse(FLAGS, args) {
        Ok(parsed) => parsed,
        Err(error) => return log::Log::default().fail(&error),
    };
    if global.is_set("version") {
        println!("berth-oci version {}\nspec: {}", crate::BUILD, berth_runtime::hooks::OCI_VERSION);
        return ExitCode::SUCCESS;
    }
    let mut rest = global.rest.clone().into_iter();
    let mut command = rest.next().filter(|_| !global.is_set("help"));
    let asks = command.as_deref() == Some("help");
    if asks {
        command = rest.next();
    }
    let Some(command) = command else {
        println!("{}", help::whole(FLAGS));
        return ExitCode::SUCCESS;
    };
    let rest = if asks { vec!["--help".to_owned()] } else { rest.collect() };
    let log = log::Log::new(global.value("log"), global.value("log-format"));
    let outcome = settings(&global, log.clone()).and_then(|global| dispatch(&global, &command, rest));
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(OciError::Help(flags)) => {
            println!("{}", help::command(&command, &flags));
            ExitCode::SUCCESS
        }
        Err(error @ OciError::NoCommand(_)) => log.fail_with(&error, NO_COMMAND),
        // An exec's own failure must not pass for its program's.
        Err(error) if command == "exec" && !matches!(error, OciError::Words(_)) => {
            log.fail_with(&error, EXEC_FAILED)
        }
        Err(error) => log.fail(&error),
    }
}

/// The exit code of an `exec` that did not run its program.
const EXEC_FAILED: u8 = 255;
/// The exit code where there is no such command.
const NO_COMMAND: u8 = 3;

fn settings(parsed: &Parsed, log: log::Log) -> Result<Global, OciError> {
    if let Some(other) = parsed.value("log-format").filter(|format| !["", "text", "json"].contains(format)) {
        return Err(OciError::Words(format!("--log-format: {other:?} is neither text nor json")));
    }
    let root = parsed.value("root").map_or_else(|| PathBuf::from("/run/berth-oci"), PathBuf::from);
    let driver = if parsed.is_set("systemd-cgroup") { Driver::Systemd } else { Driver::Cgroupfs };
    Ok(Global { root, driver, log })
}

fn dispatch(global: &Global, command: &str, args: Vec<String>) -> Result<u8, OciError> {
    let args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
    let done = |outcome: Result<(), OciError>| outcome.map(|()| 0);
    match command {
        "create" => done(create::main(global, args)),
        "start" => done(start::main(global, args)),
        "run" => run::main(global, args),
        "state" => done(state::main(global, args)),
        "list" => done(list::main(global, args)),
        "kill" => done(kill::main(global, args)),
        "delete" => done(delete::main(global, args)),
        "exec" => exec::main(global, args),
        "ps" => done(ps::main(global, args)),
        "pause" => done(pause::pause(global, args)),
        "resume" => done(pause::resume(global, args)),
        "update" => done(update::main(global, args)),
        "events" => done(events::main(global, args)),
        "features" => done(features::main(args)),
        "spec" => done(spec::main(args)),
        "checkpoint" | "restore" => Err(OciError::Usage(format!("{command} is not supported"))),
        other => Err(OciError::NoCommand(other.to_owned())),
    }
}
