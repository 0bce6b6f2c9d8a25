//! Stopping all processes of a group where they stand.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{CgroupError, Result};
use crate::file::{Dir, lookup};
use crate::group::places::Places;

/// How long the kernel may take; a process in uninterruptible sleep can delay it without bound.
const PATIENCE: Duration = Duration::from_secs(2);

/// The two freezers.
enum Freezer<'a> {
    V1(&'a Dir),
    Unified(&'a Dir),
}

impl<'a> Freezer<'a> {
    /// The v1 freezer where there is one, since that is where tools look; it may not be nested in the other.
    fn of(places: &'a Places) -> Result<Self> {
        match (places.v1_dir("freezer"), &places.unified) {
            (Some(dir), _) => Ok(Self::V1(dir)),
            (None, Some(dir)) => Ok(Self::Unified(dir)),
            (None, None) => {
                Err(CgroupError::ControllerMissing { controller: "freezer", setting: "pause".to_owned() })
            }
        }
    }

    fn dir(&self) -> &'a Dir {
        match self {
            Self::V1(dir) | Self::Unified(dir) => dir,
        }
    }

    fn ask(&self, frozen: bool) -> Result<()> {
        match self {
            Self::V1(dir) => dir.set("freezer.state", if frozen { "FROZEN" } else { "THAWED" }),
            Self::Unified(dir) => dir.set("cgroup.freeze", if frozen { "1" } else { "0" }),
        }
    }

    fn is_frozen(&self) -> Result<bool> {
        Ok(match self {
            Self::V1(dir) => dir.text("freezer.state")?.trim() == "FROZEN",
            Self::Unified(dir) => lookup(&dir.text("cgroup.events")?, "frozen") == Some(1),
        })
    }
}

/// Freezes and waits until the kernel says that it is so.
pub(crate) fn freeze(places: &Places) -> Result<()> {
    let freezer = Freezer::of(places)?;
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(50);
    freezer.ask(true)?;
    while !freezer.is_frozen()? {
        if Instant::now() >= deadline {
            freezer.ask(false)?;
            let path = freezer.dir().path.clone();
            return Err(CgroupError::Timeout { path, state: "frozen", seconds: PATIENCE.as_secs() });
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
        if pause >= Duration::from_millis(10) {
            // A v1 group with a vfork in it stays "freezing" until it is asked again.
            freezer.ask(true)?;
        }
    }
    Ok(())
}

/// Thaws.
pub(crate) fn thaw(places: &Places) -> Result<()> {
    Freezer::of(places)?.ask(false)
}

pub(crate) fn is_frozen(places: &Places) -> Option<bool> {
    Freezer::of(places).ok()?.is_frozen().ok()
}
