//! containerd-shim-berth-v1: the shim that an existing containerd takes by one line of its configuration.
//!
//! containerd executes it three ways: `start` answers with the address of a shim that serves the container (one for
//! each pod), `delete` cleans up after a shim that has died, and `-info` tells what the runtime can do.

mod container;
mod delete;
mod events;
mod flags;
mod info;
mod metrics;
mod options;
mod process;
mod record;
mod serve;
mod shim;
mod start;
mod stdio;
mod task;

use std::ffi::OsString;
use std::process::ExitCode;

use flags::Action;

/// What this program is called.
const NAME: &str = "containerd-shim-berth-v1";

/// Why the program could not do its work.
#[derive(Debug, thiserror::Error)]
enum V2Error {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// What was being done, and the system's answer.
    #[error("{0}: {1}")]
    Step(String, std::io::Error),
    /// The runtime's word.
    #[error(transparent)]
    Runtime(#[from] berth_runtime::Error),
    /// The word of a call.
    #[error(transparent)]
    Call(#[from] crate::error::CallError),
    /// The features could not be told.
    #[error(transparent)]
    Oci(#[from] crate::oci::OciError),
}

/// Names the step of a system call.
trait About<T> {
    /// The step, and what it was about.
    fn about(self, step: impl FnOnce() -> String) -> Result<T, V2Error>;
}

impl<T, E: Into<std::io::Error>> About<T> for Result<T, E> {
    fn about(self, step: impl FnOnce() -> String) -> Result<T, V2Error> {
        self.map_err(|error| V2Error::Step(step(), error.into()))
    }
}

/// The whole program.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let done = flags::parse(args).and_then(|flags| match flags.action {
        Action::Version => {
            println!("{NAME}:\n  Version:  {}\n", crate::BUILD);
            Ok(())
        }
        Action::Info => info::main(),
        Action::Start => start::main(&flags),
        Action::Delete => delete::main(&flags),
        Action::Serve => serve::main(&flags),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // containerd shows what stands on standard error.
            eprintln!("{NAME}: {error}");
            ExitCode::FAILURE
        }
    }
}
