//! Ending every process of a group.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{CgroupError, Result};
use crate::group::places::Places;
use crate::{freeze, procs};

/// How long the loop goes on where the kernel cannot kill a group at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// One write where the kernel can; else freeze, signal, thaw, until nothing is left. Frozen, no process can fork away
/// between the listing and the signal, and no number can pass to a stranger.
pub(crate) fn kill(places: &Places) -> Result<()> {
    let at_once = places.unified.as_ref().is_some_and(|dir| dir.write("cgroup.kill", "1").is_ok());
    if at_once {
        // A signal does not reach a process in a v1 freezer before it is thawed.
        if places.v1_dir("freezer").is_some() {
            freeze::thaw(places)?;
        }
        if places.v1.is_empty() || strays(places)?.is_empty() {
            return Ok(());
        }
    }
    one_by_one(places)
}

/// Processes that a v1 hierarchy lists and the unified tree does not.
fn strays(places: &Places) -> Result<Vec<i32>> {
    let unified = places.unified.as_ref().map_or(Ok(Vec::new()), procs::below)?;
    Ok(procs::all(places)?.into_iter().filter(|pid| !unified.contains(pid)).collect())
}

fn one_by_one(places: &Places) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(200);
    loop {
        // Without a freezer, or with a process that cannot be frozen now, signals alone must do.
        let frozen = freeze::freeze(places).is_ok();
        let pids = procs::all(places)?;
        for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // ESRCH: it died by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        if frozen {
            freeze::thaw(places)?;
        }
        if pids.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let path = places.all().next().map(|dir| dir.path.clone()).unwrap_or_default();
            return Err(CgroupError::Timeout { path, state: "empty", seconds: PATIENCE.as_secs() });
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
