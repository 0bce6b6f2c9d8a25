//! The directories of layers and of containers.

use crate::error::{Error, Result};
use crate::key::LayerKey;
use crate::meta::{LayerMeta, RootAttributes};
use crate::overlay::{OverlayPlan, lowers};
use crate::remove::{self, ensure_dir};
use crate::usage::{self, Usage};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, chownat, mkdirat, open, renameat_with,
    syncfs, utimensat,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The layer store of one daemon. Cheap to clone; every call blocks.
#[derive(Debug, Clone)]
pub struct Snapshots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    layers: PathBuf,
    containers: PathBuf,
    staging: PathBuf,
    sequence: AtomicU64,
    metas: Mutex<HashMap<LayerKey, LayerMeta>>,
    sync: Mutex<()>,
    leftovers: Vec<Error>,
    released: Hook,
}

/// Called when layers may have become free.
#[derive(Default)]
struct Hook(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "Hook(set)" } else { "Hook(none)" })
    }
}

/// A layer being made: a private directory with an empty `fs/` inside. Dropped without
/// [`commit`](Snapshots::layer_commit), it is removed.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
    kept: bool,
}

impl Staging {
    /// The directory that becomes `layers/<key>`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory.
    ///
    /// # Errors
    /// When it has been taken away.
    pub fn open(&self) -> Result<OwnedFd> {
        open_dir(&self.path)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // A worker that is just being killed may still add something. Whatever stays for another reason is removed when
        // the store is opened again.
        for _ in 0..3 {
            if remove::tree(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn open_dir(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    open(path, flags, Mode::empty()).map_err(Error::io("open", path))
}

impl Snapshots {
    /// Opens (or makes) the store below `root` and removes what a crash left in staging. The caller holds the lock
    /// that keeps a second daemon away from this root.
    ///
    /// # Errors
    /// When a directory cannot be made. What cannot be removed is no reason: see [`leftovers`](Self::leftovers).
    pub fn open(root: &Path) -> Result<Self> {
        let dir = |name: &str| root.join(name);
        let (layers, containers, staging) = (dir("layers"), dir("containers"), dir("staging"));
        for path in [&layers, &containers, &staging] {
            ensure_dir(path)?;
        }
        let stuck = names(&staging)?.into_iter().map(|name| remove::tree(&staging.join(name)));
        let leftovers = stuck.filter_map(Result::err).collect();
        // Above every number of an earlier daemon, whose leftovers may still be there.
        let start = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let start = start.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0));
        let (sequence, metas, sync) = (AtomicU64::new(start), Mutex::default(), Mutex::default());
        let released = Hook::default();
        Ok(Self(Arc::new(Inner { layers, containers, staging, sequence, metas, sync, leftovers, released })))
    }

    /// Sets what is called, without waiting for anything, after each removal of a container's writable tree: with the
    /// container its hold on its layers goes, within moments. The first one set stays.
    pub fn on_release(&self, act: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.released.0.set(Box::new(act));
    }

    /// What a crash left and could not be removed at open: something is mounted in it, or the disk fails. It takes
    /// space and does no other harm; the next open tries again.
    #[must_use]
    pub fn leftovers(&self) -> &[Error] {
        &self.0.leftovers
    }

    fn staging_name(&self, what: &str) -> PathBuf {
        let number = self.0.sequence.fetch_add(1, Ordering::Relaxed);
        self.0.staging.join(format!("{what}-{number}"))
    }

    /// Makes room for a new layer.
    ///
    /// # Errors
    /// When the directories cannot be made.
    pub fn layer_stage(&self) -> Result<Staging> {
        let path = self.staging_name("layer");
        mkdirat(CWD, &path, Mode::from_raw_mode(0o700)).map_err(Error::io("make directory", &path))?;
        let staging = Staging { path, kept: false };
        let fs = staging.path.join("fs");
        mkdirat(CWD, &fs, Mode::from_raw_mode(0o755)).map_err(Error::io("make directory", &fs))?;
        rustix::fs::chmod(&fs, Mode::from_raw_mode(0o755)).map_err(Error::io("set mode of", &fs))?;
        Ok(staging)
    }

    /// Gives a finished layer its place and its notes. When the same layer came in meanwhile, that one stays and
    /// this one is dropped: both are made from the same bytes.
    ///
    /// # Errors
    /// When the notes cannot be written or the directory cannot be moved.
    pub fn layer_commit(&self, mut staging: Staging, key: &LayerKey, meta: &LayerMeta) -> Result<()> {
        let note = staging.path.join("layer.json");
        let text = serde_json::to_vec(meta)
            .map_err(|error| Error::BadMeta { key: key.clone(), why: error.to_string() })?;
        std::fs::write(&note, text).map_err(Error::std("write", &note))?;
        let target = self.layer_dir(key);
        match renameat_with(CWD, &staging.path, CWD, &target, RenameFlags::NOREPLACE) {
            Ok(()) => staging.kept = true,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(Error::io("move layer to", target)(errno)),
        }
        Ok(())
    }

    fn layer_dir(&self, key: &LayerKey) -> PathBuf {
        self.0.layers.join(key.as_str())
    }

    /// Where a layer's tree is, whether or not it exists.
    #[must_use]
    pub fn layer_path(&self, key: &LayerKey) -> PathBuf {
        self.layer_dir(key).join("fs")
    }

    /// Opens a layer's tree.
    ///
    /// # Errors
    /// [`Error::NoLayer`] when it is not on disk.
    pub fn layer_open(&self, key: &LayerKey) -> Result<OwnedFd> {
        match open_dir(&self.layer_path(key)) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::NoLayer(key.clone()))
            }
            other => other,
        }
    }

    /// Whether a layer is on disk.
    #[must_use]
    pub fn layer_exists(&self, key: &LayerKey) -> bool {
        rustix::fs::lstat(self.layer_path(key)).is_ok()
    }

    /// The notes of a layer.
    ///
    /// # Errors
    /// When it is not on disk, or its notes are damaged.
    pub fn layer_meta(&self, key: &LayerKey) -> Result<LayerMeta> {
        if let Some(meta) = self.metas().get(key) {
            return Ok(meta.clone());
        }
        let path = self.layer_dir(key).join("layer.json");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NoLayer(key.clone()));
            }
            Err(error) => return Err(Error::std("read", path)(error)),
        };
        let meta: LayerMeta = serde_json::from_slice(&text)
            .map_err(|error| Error::BadMeta { key: key.clone(), why: error.to_string() })?;
        self.metas().insert(key.clone(), meta.clone());
        Ok(meta)
    }

    fn metas(&self) -> std::sync::MutexGuard<'_, HashMap<LayerKey, LayerMeta>> {
        self.0.metas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a layer out of its place at once and returns it as [`Staging`], whose drop removes the tree. So a new
    /// layer of the same key can be committed while the old one is still being removed.
    ///
    /// # Errors
    /// When the directory cannot be moved. A missing layer gives `None`.
    pub fn layer_detach(&self, key: &LayerKey) -> Result<Option<Staging>> {
        self.metas().remove(key);
        let (from, path) = (self.layer_dir(key), self.staging_name("gone"));
        match renameat_with(CWD, &from, CWD, &path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Some(Staging { path, kept: false })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::io("move away layer", from)(errno)),
        }
    }

    /// Removes a layer; a missing one is no error.
    ///
    /// # Errors
    /// As [`layer_detach`](Self::layer_detach) and [`remove::tree`].
    pub fn layer_remove(&self, key: &LayerKey) -> Result<()> {
        let Some(mut gone) = self.layer_detach(key)? else { return Ok(()) };
        gone.kept = true;
        remove::tree(&gone.path)
    }

    /// Every layer on disk, sorted. Foreign names in the directory are left out.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn layers(&self) -> Result<Vec<LayerKey>> {
        Ok(names(&self.0.layers)?.iter().filter_map(|name| LayerKey::parse(name).ok()).collect())
    }

    /// Everything written to the store's file system so far reaches the disk. One at a time per node: a second sync
    /// beside the first would only make both slower.
    ///
    /// # Errors
    /// When the kernel reports a lost write.
    pub fn sync(&self) -> Result<()> {
        let _alone = self.0.sync.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = open_dir(&self.0.layers)?;
        syncfs(&dir).map_err(Error::io("sync file system of", &self.0.layers))
    }

    /// Makes a container's writable tree on top of `layers` (bottom first) and says what to mount.
    ///
    /// # Errors
    /// [`Error::ContainerExists`], [`Error::NoLayer`], or a failed system call; then nothing is left behind.
    pub fn container_create(&self, id: &str, layers: &[LayerKey]) -> Result<OverlayPlan> {
        let dir = self.container_dir(id)?;
        let (lower, root) = lowers(self, layers)?;
        if let Some(gone) = layers.iter().find(|key| !self.layer_exists(key)) {
            return Err(Error::NoLayer(gone.clone()));
        }
        match mkdirat(CWD, &dir, Mode::from_raw_mode(0o700)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(Error::ContainerExists(id.to_owned())),
            Err(errno) => return Err(Error::io("make directory", dir)(errno)),
        }
        let plan =
            OverlayPlan { lower, upper: dir.join("upper"), work: dir.join("work"), options: Vec::new() };
        if let Err(error) = writable(&plan, root) {
            let _ = remove::tree(&dir);
            return Err(error);
        }
        Ok(plan)
    }

    /// Removes a container's writable tree; a missing one is no error.
    ///
    /// # Errors
    /// [`Error::Mounted`] when something is still mounted in it.
    pub fn container_remove(&self, id: &str) -> Result<()> {
        remove::tree(&self.container_dir(id)?)?;
        if let Some(act) = self.0.released.0.get() {
            act();
        }
        Ok(())
    }

    /// Ids that have a writable tree, sorted.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn containers(&self) -> Result<Vec<String>> {
        names(&self.0.containers)
    }

    /// What a container has written.
    ///
    /// # Errors
    /// When it has no writable tree.
    pub fn usage(&self, id: &str) -> Result<Usage> {
        usage::of(&self.container_dir(id)?.join("upper"))
    }

    /// What a layer takes.
    ///
    /// # Errors
    /// When it is not on disk.
    pub fn layer_usage(&self, key: &LayerKey) -> Result<Usage> {
        usage::of(&self.layer_path(key))
    }

    /// The directory on whose file system images live.
    #[must_use]
    pub fn image_filesystem(&self) -> &Path {
        &self.0.layers
    }

    fn container_dir(&self, id: &str) -> Result<PathBuf> {
        let good =
            !id.is_empty() && id.len() <= 128 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !good {
            return Err(Error::BadId(id.chars().take(160).collect()));
        }
        Ok(self.0.containers.join(id))
    }
}

fn writable(plan: &OverlayPlan, root: RootAttributes) -> Result<()> {
    for path in [&plan.upper, &plan.work] {
        mkdirat(CWD, path, Mode::from_raw_mode(0o700)).map_err(Error::io("make directory", path))?;
    }
    let upper = &plan.upper;
    let (uid, gid) = (rustix::fs::Uid::from_raw(root.uid), rustix::fs::Gid::from_raw(root.gid));
    chownat(CWD, upper, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(Error::io("set owner of", upper))?;
    rustix::fs::chmod(upper, Mode::from_raw_mode(root.mode & 0o7777))
        .map_err(Error::io("set mode of", upper))?;
    if root.mtime != 0 {
        let time = Timespec { tv_sec: root.mtime, tv_nsec: root.mtime_nsec.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, upper, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::io("set times of", upper))?;
    }
    Ok(())
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(Error::std("list", dir))? {
        let entry = entry.map_err(Error::std("list", dir))?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[path = "layers/tests.rs"]
mod tests;
