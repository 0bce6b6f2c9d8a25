//! Faults on purpose: fault points of a running daemon, a small disk, a shim's end, a plugin with moods.

mod control;
mod disk;
mod left;
mod plugin;
mod shims;

pub use control::{arm, hits, inventory, reached};
pub use disk::Disk;
pub use left::left_of_pods;
pub use plugin::{Mood, Plugin, Position, held_addresses, remove_bridge};
pub use shims::{kill_shims, sandbox_of, shims};

/// Whether everything runs, and not only what fits into each change's run.
pub fn everything() -> bool {
    std::env::var_os("BERTH_E2E_ALL").is_some()
}

/// Which part of `of` is this run's turn: it changes with the commit, so that runs add up to the whole.
pub fn turn(of: usize) -> usize {
    if let Some(wish) = std::env::var("BERTH_E2E_TURN").ok().and_then(|text| text.parse::<usize>().ok()) {
        return wish % of.max(1);
    }
    let mut git = std::process::Command::new("git");
    git.args(["rev-list", "--count", "HEAD"]).current_dir(crate::paths::root());
    let counted = git.output().ok().and_then(|said| String::from_utf8(said.stdout).ok());
    counted.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(0) % of.max(1)
}
