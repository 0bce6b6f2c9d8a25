//! Mounts by mount(2), where a call of the newer interface is missing. What that gives as a detached mount is here one on a stage, a
//! private tmpfs in this process's own mount namespace, from where it is moved to its place.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

use crate::missing::{Call, lacks};

/// A directory that every kernel has and nobody mounts from; what is in it the runtime never reads.
const PLACE: &str = "/proc/tty";

/// Whether this process's mount namespace is one where a stage may be put up.
static ALLOWED: AtomicBool = AtomicBool::new(false);

/// The first call of the newer interface that is missing, by its name. All go together: with one missing, none is used.
pub fn missing_call() -> Option<&'static str> {
    [
        (Call::OpenTree, "open_tree"),
        (Call::MoveMount, "move_mount"),
        (Call::FsOpen, "fsopen"),
        (Call::FsConfig, "fsconfig"),
        (Call::FsMount, "fsmount"),
    ]
    .into_iter()
    .find_map(|(call, name)| lacks(call).then_some(name))
}

/// Says that the mount namespace is this process's own, cut off from the host's, and will be left or go with it.
pub fn allow_stage() {
    ALLOWED.store(true, Ordering::Relaxed);
}

/// A path for mount(2) to what is behind a descriptor, which no rename can redirect.
pub(super) fn path_of(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// A copy of the mount that holds `fd`, rooted at `fd`, on the stage.
pub(super) fn bind(fd: BorrowedFd<'_>, recursive: bool) -> io::Result<OwnedFd> {
    let mode = rustix::fs::fstat(fd)?.st_mode;
    let slot = Slot::new(FileType::from_raw_mode(mode) == FileType::Directory)?;
    let target = path_of(slot.fd.as_fd());
    if recursive {
        rustix::mount::mount_bind_recursive(path_of(fd), target)?;
    } else {
        rustix::mount::mount_bind(path_of(fd), target)?;
    }
    slot.mounted()
}

/// A new file system on the stage.
///
/// # Errors
/// The errno of mount(2); without a word of why, which only the newer interface has.
pub fn create(kind: &CStr, source: &CStr, flags: MountFlags, data: &CStr) -> io::Result<OwnedFd> {
    let slot = Slot::new(true)?;
    rustix::mount::mount(source, path_of(slot.fd.as_fd()), kind, flags, data)?;
    slot.mounted()
}

/// A place on the stage.
struct Slot {
    name: String,
    fd: OwnedFd,
}

impl Slot {
    fn new(directory: bool) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = COUNT.fetch_add(1, Ordering::Relaxed).to_string();
        let stage = stage()?;
        if directory {
            rustix::fs::mkdirat(stage, &name, Mode::RWXU)?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(stage, &name, flags, Mode::RUSR)?;
        }
        let fd = open(stage, &name)?;
        Ok(Self { name, fd })
    }

    /// What is mounted there.
    fn mounted(self) -> io::Result<OwnedFd> {
        open(stage()?, &self.name)
    }
}

fn open(stage: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(stage, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

fn stage() -> io::Result<&'static OwnedFd> {
    static STAGE: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(stage) = STAGE.get() {
        return Ok(stage);
    }
    if !ALLOWED.load(Ordering::Relaxed) {
        let call = missing_call().unwrap_or("open_tree");
        let text = format!(
            "this takes {call}, which this kernel, or a seccomp filter around the runtime, does not allow"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    rustix::mount::mount("tmpfs", PLACE, "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, c"mode=0700")?;
    // Nothing can be moved away from a place that shares its mounts.
    rustix::mount::mount_change(PLACE, MountPropagationFlags::PRIVATE)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::open(PLACE, flags, Mode::empty())?;
    Ok(STAGE.get_or_init(|| made))
}
