//! Making a group's directories.

use rustix::fs::{Mode as FileMode, mkdirat};
use rustix::io::Errno;

use super::places::Places;
use crate::error::{CgroupError, Result};
use crate::file::Dir;
use crate::hierarchy::{Hierarchies, Mode, UnifiedHierarchy, V1Hierarchy};
use crate::{procs, remove};

const MODE: FileMode = FileMode::from_raw_mode(0o755);

/// What to do with a directory that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Put a new one in its place, or refuse if it holds processes.
    Replace,
    /// Take it as it is: systemd made it.
    Keep,
}

/// Makes the group `relative` in every hierarchy that `wanted` says yes to (by its first controller; the unified tree
/// is asked as ""), or opens it where it says no. On failure what was made is gone again.
pub(crate) fn make(
    hierarchies: &Hierarchies,
    relative: &str,
    existing: Existing,
    wanted: impl Fn(&str) -> bool,
) -> Result<Places> {
    let mut places = Places::default();
    make_into(hierarchies, relative, existing, wanted, &mut places)
        .inspect_err(|_| {
            // The first error is the one to tell.
            let _ = remove::all(&places);
        })
        .map(|()| places)
}

/// As [`make`], but what was made is in `places` also after a failure, for the caller to remove.
pub(crate) fn make_into(
    hierarchies: &Hierarchies,
    relative: &str,
    existing: Existing,
    wanted: impl Fn(&str) -> bool,
    places: &mut Places,
) -> Result<()> {
    for one in hierarchies.v1() {
        let first = one.controllers.first().map_or("", String::as_str);
        if wanted(first) {
            // Noted before it is filled: a directory that cannot be used has to go as well.
            places.v1.push((one.controllers.clone(), make_v1(one, relative, existing)?));
            if one.controllers.iter().any(|name| name == "cpuset") {
                inherit_cpuset(one, relative)?;
            }
        } else if let Ok(dir) = Dir::open(&one.root, &one.mount, relative) {
            places.v1.push((one.controllers.clone(), dir));
        }
    }
    let Some(tree) = hierarchies.unified() else { return Ok(()) };
    places.unified = if wanted("") {
        Some(make_unified(tree, relative, existing)?)
    } else {
        Dir::open(&tree.root, &tree.mount, relative).ok()
    };
    // Also where systemd made the group: it hands down the controllers that it knows, and hugetlb is none of them.
    let all = hierarchies.mode() == Mode::V2 && places.unified.is_some();
    if all { enable_controllers(tree, relative) } else { Ok(()) }
}

fn make_v1(one: &V1Hierarchy, relative: &str, existing: Existing) -> Result<Dir> {
    make_leaf(relative, existing, &|path| mkdirat(&one.root, path, MODE), &|path| {
        Dir::open(&one.root, &one.mount, path)
    })
    .map_err(|failure| failure.at(one.mount.join(relative)))
}

fn make_unified(tree: &UnifiedHierarchy, relative: &str, existing: Existing) -> Result<Dir> {
    make_leaf(relative, existing, &|path| mkdirat(&tree.root, path, MODE), &|path| {
        Dir::open(&tree.root, &tree.mount, path)
    })
    .map_err(|failure| failure.at(tree.mount.join(relative)))
}

enum Failure {
    Errno(Errno),
    InUse,
}

impl Failure {
    fn at(self, path: std::path::PathBuf) -> CgroupError {
        match self {
            Self::Errno(errno) => CgroupError::io("mkdir", path)(errno),
            Self::InUse => CgroupError::InUse { path },
        }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

type Mkdir<'a> = &'a dyn Fn(&str) -> std::result::Result<(), Errno>;
type Open<'a> = &'a dyn Fn(&str) -> std::result::Result<Dir, Errno>;

/// One mkdir when the parents are there, which is the rule; parents from the top when not.
fn make_leaf(
    relative: &str,
    existing: Existing,
    mkdir: Mkdir<'_>,
    open: Open<'_>,
) -> std::result::Result<Dir, Failure> {
    match mkdir(relative) {
        Ok(()) => {}
        Err(Errno::EXIST) if existing == Existing::Keep => {}
        Err(Errno::EXIST) => replace(relative, mkdir, open)?,
        Err(Errno::NOENT) => {
            for (end, _) in relative.match_indices('/') {
                match mkdir(&relative[..end]) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            mkdir(relative)?;
        }
        Err(errno) => return Err(errno.into()),
    }
    Ok(open(relative)?)
}

/// Puts a new directory in place of a leftover without processes.
fn replace(relative: &str, mkdir: Mkdir<'_>, open: Open<'_>) -> std::result::Result<(), Failure> {
    let old = open(relative)?;
    let busy = procs::below(&old).is_ok_and(|pids| !pids.is_empty());
    if busy || remove::tree(&old.path).is_err() {
        return Err(Failure::InUse);
    }
    Ok(mkdir(relative)?)
}

/// A cpuset group takes no process before it has cpus and memory nodes: each level takes its parent's, from the top.
fn inherit_cpuset(one: &V1Hierarchy, relative: &str) -> Result<()> {
    let failed = |step, path: &str| CgroupError::io(step, one.mount.join(path));
    let leaf = Dir::open(&one.root, &one.mount, relative).map_err(failed("open", relative))?;
    if leaf.line("cpuset.cpus").is_some_and(|cpus| !cpus.is_empty())
        && leaf.line("cpuset.mems").is_some_and(|mems| !mems.is_empty())
    {
        return Ok(());
    }
    let mut above = Dir::open(&one.root, &one.mount, ".").map_err(failed("open", "."))?;
    for end in relative.match_indices('/').map(|(at, _)| at).chain([relative.len()]) {
        let path = &relative[..end];
        let dir = Dir::open(&one.root, &one.mount, path).map_err(failed("open", path))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if dir.text(file)?.trim().is_empty() {
                dir.set(file, above.text(file)?.trim())?;
            }
        }
        above = dir;
    }
    Ok(())
}

/// Hands the controllers that the root offers down to the group's parent.
fn enable_controllers(tree: &UnifiedHierarchy, relative: &str) -> Result<()> {
    let parent = relative.rsplit_once('/').map_or(".", |(parent, _)| parent);
    let open = |path: &str| {
        Dir::open(&tree.root, &tree.mount, path).map_err(CgroupError::io("open", tree.mount.join(path)))
    };
    if lacking(&open(parent)?, &tree.controllers)?.is_empty() {
        return Ok(());
    }
    let levels = parent.match_indices('/').map(|(at, _)| &parent[..at]).chain([parent]);
    for path in std::iter::once(".").chain(levels.filter(|path| *path != ".")) {
        let dir = open(path)?;
        let lacking = lacking(&dir, &tree.controllers)?;
        let all: String = lacking.iter().map(|name| format!("+{name} ")).collect();
        if lacking.is_empty() || dir.write("cgroup.subtree_control", all.trim_end()).is_ok() {
            continue;
        }
        // One that cannot be had (real-time tasks, a threaded group) must not keep the others away; a limit that needs
        // it fails by name when it is set.
        for name in lacking {
            let _ = dir.write("cgroup.subtree_control", &format!("+{name}"));
        }
    }
    Ok(())
}

fn lacking(dir: &Dir, wanted: &[String]) -> Result<Vec<String>> {
    let enabled = dir.text("cgroup.subtree_control")?;
    Ok(wanted.iter().filter(|name| !enabled.split_whitespace().any(|have| have == *name)).cloned().collect())
}
