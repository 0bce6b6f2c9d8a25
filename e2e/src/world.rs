//! This same program again, in a mount and a cgroup namespace of its own that show another machine.

use anyhow::Result;
use std::process::{Command, Stdio};

const INSIDE: &str = "BERTH_E2E_INSIDE";

/// A world of which only the unified hierarchy is visible.
pub const UNIFIED: &str = "set -eu
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec \"$@\"
";

/// Whether this is the program inside.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The program anew, without its arguments: a script of `sh` makes the world and ends with `exec "$@"`.
///
/// # Errors
/// The program's own path is not known.
pub fn inside(world: &str) -> Result<Command> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--cgroup", "--propagation", "private", "sh", "-c", world, "sh"]);
    command.arg(std::env::current_exe()?).env(INSIDE, "1").stdin(Stdio::null());
    Ok(command)
}
