//! ExecSync.

use crate::container;
use crate::pod::{Error, Pods};
use std::time::Duration;

/// What a program said, and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Exit code.
    pub exit_code: i32,
}

/// Runs a program in a running container and waits for it; zero means as long as it takes. It works until the
/// container is killed, also while it is being stopped.
///
/// # Errors
/// No such container, not running, the program could not be started, or the time was not enough.
pub async fn exec_sync(
    pods: &Pods,
    id: &str,
    argv: Vec<String>,
    timeout: Duration,
) -> Result<ExecOutput, Error> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("cmd", "must name a program"));
    }
    let (sandbox, found) = pods.find_container(id)?;
    let view = pods.view(sandbox).ok_or_else(|| Error::NoContainer(id.to_owned()))?;
    let record = view.containers.get(&found).ok_or_else(|| Error::NoContainer(id.to_owned()))?;
    if !record.is_running() {
        let (object, state) = (format!("container {found}"), record.state_word().to_owned());
        return Err(Error::State { act: "ExecSync", object, state });
    }
    let done = container::exec_sync(view.shim.as_ref(), found, argv, timeout).await?;
    if done.timed_out {
        let what = format!("the program in container {found}");
        return Err(Error::Deadline { what, seconds: timeout.as_secs(), hint: "; it was killed" });
    }
    Ok(ExecOutput { stdout: done.stdout, stderr: done.stderr, exit_code: done.exit_code })
}
