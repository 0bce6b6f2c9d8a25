//! What attacks need: two names that change places without end, a place outside that nothing may reach, short words.

use anyhow::{Context, Result};
use berth_e2e::bundle::{Bundle, Ran, Runtime};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// One at a time: the kernel has one lock for all renames, and several that never pause would starve every lookup of the
/// machine, the victims' above all.
static ALONE: Mutex<()> = Mutex::new(());
/// Exchanges in a row, and the pause after them.
const BURST: u64 = 64;
const PAUSE: Duration = Duration::from_micros(200);

/// Two names in one file system, exchanged in bursts as fast as the kernel can, as another container with the same volume would.
pub(super) struct Swapper {
    _alone: MutexGuard<'static, ()>,
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    pub(super) fn start(one: &Path, other: &Path) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (one, other) = (one.to_path_buf(), other.to_path_buf());
        let (halt, count) = (stop.clone(), turns.clone());
        let thread = std::thread::spawn(move || {
            while !halt.load(Ordering::Relaxed) {
                if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                if count.load(Ordering::Relaxed) % BURST == 0 {
                    std::thread::sleep(PAUSE);
                }
            }
        });
        Self { _alone: alone, stop, turns, thread: Some(thread) }
    }

    /// How often they changed places.
    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A bundle of ours whose container runs this script.
pub(super) fn bundle(script: &str) -> Result<Bundle> {
    let bundle = Bundle::new(Runtime::Berth)?;
    bundle.change(|c| c["process"]["args"] = json!(["sh", "-c", script]))?;
    Ok(bundle)
}

/// A directory of the host's, beside the rootfs, which nothing of the container may reach.
pub(super) fn outside(bundle: &Bundle) -> Result<PathBuf> {
    let dir = bundle.path("outside");
    fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    Ok(dir)
}

/// Everything below a directory, sorted, with what each is.
pub(super) fn tree(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(dir, &mut found);
    found.sort();
    found
}

fn walk(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let kind = entry.file_type();
        found.push(format!("{} {kind:?}", entry.path().display()));
        if kind.is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), found);
        }
    }
}

/// How a run ended, in a line for messages.
pub(super) fn story(ran: &Ran) -> String {
    format!("exit {}, {:?}, {:?}, {:?}", ran.code, ran.error, ran.out, ran.err)
}

/// Runs a bundle's container and takes it away, whatever came of it.
pub(super) fn once(bundle: &Bundle) -> Result<Ran> {
    let ran = bundle.run()?;
    bundle.call_with("delete", &["--force"], &[])?;
    Ok(ran)
}

/// All that the bundle's commands and its container printed.
pub(super) fn outputs(bundle: &Bundle) -> String {
    let files = fs::read_dir(bundle.dir()).into_iter().flatten().flatten();
    let outs = files.filter(|file| file.path().extension().is_some_and(|e| e == "out"));
    outs.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
}
