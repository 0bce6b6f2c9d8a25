//! The configuration directory: read again whenever something in it has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::config::{self, Network};

/// A file as it was when it was read: name, time, size, inode.
type Seen = (PathBuf, Option<SystemTime>, u64, u64);

/// What the directory holds.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The first usable network by file name, with its file.
    pub(super) network: Option<(PathBuf, Arc<Network>)>,
    /// Files that are no network, with the reason.
    pub(super) skipped: Vec<String>,
}

#[derive(Debug, Default)]
struct Read {
    seen: Option<Vec<Seen>>,
    view: View,
}

/// The directory with its last view.
#[derive(Debug)]
pub(super) struct Catalog {
    dir: PathBuf,
    read: Mutex<Read>,
}

impl Catalog {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, read: Mutex::default() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the directory holds now. Costs one stat per file when nothing has changed.
    pub(super) fn view(&self) -> View {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = look(&self.dir);
        if read.seen.as_ref() != Some(&seen) {
            let files =
                seen.iter().map(|(file, ..)| file.as_path()).filter(|f| f.parent() == Some(&self.dir));
            read.view = load(files, read.view.network.take());
            // A file without a time stamp cannot be told from its successor: read it again next time.
            read.seen = seen.iter().all(|(_, time, ..)| time.is_some()).then_some(seen);
        }
        read.view.clone()
    }
}

/// Configuration files, sorted by name, and what lies in directories of their networks' names.
fn look(dir: &Path) -> Vec<Seen> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    for file in list(dir) {
        let Ok(meta) = fs::metadata(&file) else { continue };
        found.push((file, meta.modified().ok(), meta.size(), meta.ino()));
    }
    found
}

fn list(dir: &Path) -> Vec<PathBuf> {
    let (dirs, mut files): (Vec<_>, Vec<_>) = entries(dir).into_iter().partition(|path| path.is_dir());
    files.extend(dirs.iter().flat_map(|dir| entries(dir)));
    files.retain(|file| is_conf(file));
    files
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    found.sort();
    found
}

fn is_conf(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == "conf" || e == "conflist" || e == "json")
}

fn load<'a>(files: impl Iterator<Item = &'a Path>, before: Option<(PathBuf, Arc<Network>)>) -> View {
    let mut view = View::default();
    for file in files {
        match config::read(file) {
            Ok(network) if view.network.is_none() => {
                view.network = Some((file.to_owned(), Arc::new(network)));
            }
            Ok(_) => {}
            Err(why) => view.skipped.push(format!("{}: {why}", file.display())),
        }
    }
    if let (None, Some((file, network))) = (&view.network, before)
        && view.skipped.iter().any(|text| text.starts_with(&format!("{}: ", file.display())))
    {
        // Half-written just now, or mistyped: pods go on with what worked, and the status says so.
        view.skipped.push(format!("{}: its last valid version stays in use", file.display()));
        view.network = Some((file, network));
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(view: &View) -> Option<&str> {
        view.network.as_ref().map(|(_, n)| n.name.as_str())
    }

    #[test]
    fn the_first_good_file_by_name_wins_and_changes_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        let catalog = Catalog::new(dir.path().join("missing"));
        assert_eq!(name(&catalog.view()), None);
        let catalog = Catalog::new(dir.path().to_owned());
        assert_eq!(name(&catalog.view()), None);
        put("20-b.conf", r#"{"name":"b","type":"p"}"#);
        put("05-readme.txt", "{}");
        assert_eq!(name(&catalog.view()), Some("b"));
        put("10-bad.json", "garbage");
        let view = catalog.view();
        assert_eq!(name(&view), Some("b"));
        assert_eq!(view.skipped.len(), 1);
        assert!(view.skipped[0].contains("10-bad.json"), "{:?}", view.skipped);
        put("10-bad.json", r#"{"name":"a","plugins":[{"type":"p"}]}"#);
        assert_eq!(name(&catalog.view()), Some("a"));
        fs::remove_file(dir.path().join("10-bad.json")).unwrap();
        assert_eq!(name(&catalog.view()), Some("b"));
    }

    #[test]
    fn a_broken_rewrite_keeps_what_worked_and_a_removal_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("10.conf");
        let catalog = Catalog::new(dir.path().to_owned());
        fs::write(&file, r#"{"name":"a","type":"p"}"#).unwrap();
        assert_eq!(name(&catalog.view()), Some("a"));
        fs::write(&file, "").unwrap();
        assert_eq!(name(&catalog.view()), Some("a"));
        assert_eq!(catalog.view().skipped.len(), 2);
        fs::remove_file(&file).unwrap();
        assert_eq!(name(&catalog.view()), None);
    }
}
