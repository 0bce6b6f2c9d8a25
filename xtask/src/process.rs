//! Running other programs: inherited output, captured output, and root.

use anyhow::{Context, bail};
use std::process::{Command, Stdio};

/// Runs a program with our output; an exit code other than 0 is an error that names the command.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| shown.clone())?;
    if status.success() {
        return Ok(());
    }
    bail!("`{shown}` ended with {status}")
}

/// Runs a program and returns what it printed; its errors stay visible.
pub(crate) fn capture(command: &mut Command) -> anyhow::Result<String> {
    let shown = show(command);
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().with_context(|| shown.clone())?;
    if !output.status.success() {
        bail!("`{shown}` ended with {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program of this name can be run at all.
pub(crate) fn exists(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    // The owner of /proc/self is the effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// `cargo` as it was started, in the workspace root, with the one profile.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(crate::layout::root()).arg(subcommand);
    command
}

fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
