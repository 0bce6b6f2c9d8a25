//! Layers made apart and then settled must show what a serial unpack onto one tree shows.

use super::*;
use crate::unpack::apply::Applier;
use crate::unpack::limits::Limits;
use crate::unpack::tar::Reader;
use crate::unpack::test_tar::{Head, Tar};
use berth_snapshot::{Digest, Snapshots};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// What one layer does, in its own words.
#[derive(Debug, Clone)]
enum Step {
    Dir(usize, u32),
    File(usize, u32),
    Delete(usize),
    Opaque(usize),
    Link(usize, usize),
}

/// A few paths, nested, so that steps meet each other.
const PATHS: [&str; 8] = ["a", "a/b", "a/b/c", "a/b/d", "e", "e/f", "g", "a/h"];

/// The tree as a serial unpacker sees it: mode, and the number of the file's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Thing {
    Dir(u32),
    File(u32),
}

type Model = BTreeMap<String, Thing>;

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

fn remove(model: &mut Model, path: &str) {
    model.retain(|key, _| key != path && !is_below(key, path));
}

/// Parents come into being with the default mode, in place of a file if need be.
fn parents(model: &mut Model, path: &str) {
    for (at, _) in path.match_indices('/') {
        if !matches!(model.get(&path[..at]), Some(Thing::Dir(_))) {
            model.insert(path[..at].to_owned(), Thing::Dir(0o755));
        }
    }
}

/// Deletions first, as the specification has it: they concern only what is below.
fn serial(model: &mut Model, steps: &[Step]) {
    for step in steps {
        if let Step::Opaque(path) = step {
            model.retain(|key, _| !is_below(key, PATHS[*path]));
        }
    }
    for step in steps {
        // As containerd has it, a marker brings its directory into being.
        match step {
            Step::Delete(path) => {
                remove(model, PATHS[*path]);
                parents(model, PATHS[*path]);
            }
            Step::Opaque(path) => parents(model, &format!("{}/marker", PATHS[*path])),
            _ => {}
        }
    }
    for step in steps {
        match step {
            Step::Dir(path, mode) => {
                parents(model, PATHS[*path]);
                model.insert(PATHS[*path].to_owned(), Thing::Dir(*mode));
            }
            Step::File(path, number) => {
                parents(model, PATHS[*path]);
                remove(model, PATHS[*path]);
                model.insert(PATHS[*path].to_owned(), Thing::File(*number));
            }
            Step::Link(path, target) => {
                if let Some(thing) = model.get(PATHS[*target]).cloned() {
                    parents(model, PATHS[*path]);
                    remove(model, PATHS[*path]);
                    model.insert(PATHS[*path].to_owned(), thing);
                }
            }
            Step::Delete(_) | Step::Opaque(_) => {}
        }
    }
}

/// Keeps steps that contradict neither each other nor what is below: each path once, files without children,
/// links to files of lower layers, markers in directories.
fn sensible(steps: Vec<Step>, below: &Model) -> Vec<Step> {
    let mut kept: Vec<Step> = Vec::new();
    let mut used: BTreeMap<usize, bool> = BTreeMap::new();
    for step in steps {
        let (path, holds) = match &step {
            Step::Dir(path, _) => (*path, true),
            Step::File(path, _) | Step::Link(path, _) | Step::Delete(path) => (*path, false),
            Step::Opaque(path) => (*path, true),
        };
        let clash = used.iter().any(|(other, other_holds)| {
            *other == path
                || (is_below(PATHS[path], PATHS[*other]) && !other_holds)
                || (is_below(PATHS[*other], PATHS[path]) && !holds)
        });
        let file_above = PATHS
            .iter()
            .any(|dir| is_below(PATHS[path], dir) && matches!(below.get(*dir), Some(Thing::File(_))));
        let fits = match &step {
            Step::Link(_, target) => {
                matches!(below.get(PATHS[*target]), Some(Thing::File(_)))
                    && !used.keys().any(|other| other == target || is_below(PATHS[*target], PATHS[*other]) && !used[other])
                    && !kept.iter().any(|one| matches!(one, Step::Delete(p) | Step::Opaque(p) if is_below(PATHS[*target], PATHS[*p]) || p == target))
            }
            Step::Opaque(path) => matches!(below.get(PATHS[*path]), Some(Thing::Dir(_))),
            _ => true,
        };
        let links = kept.iter().any(|one| matches!(one, Step::Link(_, target) if *target == path || is_below(PATHS[*target], PATHS[path])));
        if !clash && fits && !file_above && !links {
            used.insert(path, holds);
            kept.push(step);
        }
    }
    kept
}

fn write(steps: &[Step]) -> Vec<u8> {
    let whiteout = |path: &str| match path.rsplit_once('/') {
        Some((dir, name)) => format!("{dir}/.wh.{name}"),
        None => format!(".wh.{path}"),
    };
    let one = |tar: Tar, step: &Step| match step {
        Step::Dir(path, mode) => tar.head(&Head::new(PATHS[*path], b'5').mode(*mode)),
        Step::File(path, number) => tar.file(PATHS[*path], &number.to_string()),
        Step::Delete(path) => tar.head(&Head::new(&whiteout(PATHS[*path]), b'0')),
        Step::Opaque(path) => tar.head(&Head::new(&format!("{}/.wh..wh..opq", PATHS[*path]), b'0')),
        Step::Link(path, target) => tar.hardlink(PATHS[*path], PATHS[*target]),
    };
    steps.iter().fold(Tar::new(), one).end()
}

fn open(path: &Path) -> OwnedFd {
    openat(rustix::fs::CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

static WANTED: AtomicBool = AtomicBool::new(false);

fn bounds(limits: &Limits) -> Bounds<'_> {
    Bounds { limits, given_up: &WANTED }
}

/// Applies each layer alone (in any order: they do not see each other), then settles from the bottom up.
fn apart(layers: &[Vec<u8>], store: &Snapshots) -> Vec<OwnedFd> {
    let made: Vec<_> = layers
        .iter()
        .rev()
        .map(|tar| {
            let staging = store.layer_stage().unwrap();
            let root = open(&staging.path().join("fs"));
            let applied =
                Applier::new(root, Limits::default()).apply(&mut Reader::new(tar.as_slice())).unwrap();
            let diff_id = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
            (staging, applied.into_report(diff_id, 0))
        })
        .collect();
    let mut finished: Vec<OwnedFd> = Vec::new();
    for (staging, report) in made.into_iter().rev() {
        let root = open(&staging.path().join("fs"));
        settle(root.as_fd(), &finished, &report.needs, &bounds(&Limits::default())).unwrap();
        mark_opaque(root.as_fd(), &report).unwrap();
        finished.insert(0, root);
        std::mem::forget(staging);
    }
    finished
}

/// Reads the merged view as a model.
fn view(layers: &[OwnedFd]) -> Model {
    let lower = Lower::new(layers);
    let mut model = Model::new();
    for path in PATHS {
        match lower.exact(path.as_bytes()).unwrap() {
            Some(Found::Directory(_, stat)) => {
                model.insert(path.to_owned(), Thing::Dir(stat.st_mode & 0o7777));
            }
            Some(Found::Other(dir, name, _)) => {
                let file = openat(&dir, name.as_slice(), OFlags::RDONLY, Mode::empty()).unwrap();
                let text = std::io::read_to_string(std::fs::File::from(file)).unwrap();
                model.insert(path.to_owned(), Thing::File(text.parse().unwrap()));
            }
            None => {}
        }
    }
    model
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    let mode = prop_oneof![Just(0o700u32), Just(0o1777), Just(0o2755)];
    prop_oneof![
        (path.clone(), mode).prop_map(|(path, mode)| Step::Dir(path, mode)),
        (path.clone(), 0u32..1000).prop_map(|(path, number)| Step::File(path, number)),
        path.clone().prop_map(Step::Delete),
        path.clone().prop_map(Step::Opaque),
        (path.clone(), path).prop_map(|(path, target)| Step::Link(path, target)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn made_apart_and_settled_equals_unpacked_in_order(
        stack in prop::collection::vec(prop::collection::vec(step(), 0..8), 1..5)
    ) {
        let mut model = Model::new();
        let mut layers = Vec::new();
        for steps in stack {
            let steps = sensible(steps, &model);
            serial(&mut model, &steps);
            layers.push(write(&steps));
        }
        let dir = tempfile::tempdir().unwrap();
        let store = Snapshots::open(dir.path()).unwrap();
        let found = view(&apart(&layers, &store));
        prop_assert_eq!(found, model);
    }
}

fn stack(layers: &[Tar]) -> (tempfile::TempDir, Vec<OwnedFd>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    let layers: Vec<Vec<u8>> = layers.iter().map(|tar| tar.clone().end()).collect();
    let made = apart(&layers, &store);
    (dir, made)
}

fn mode(layers: &[OwnedFd], path: &str) -> Option<u32> {
    match Lower::new(layers).exact(path.as_bytes()).unwrap() {
        Some(Found::Directory(_, stat) | Found::Other(_, _, stat)) => Some(stat.st_mode & 0o7777),
        None => None,
    }
}

#[test]
fn attributes_come_from_the_topmost_directory_below() {
    let dir = |mode: u32| Tar::new().head(&Head::new("tmp", b'5').mode(mode));
    let (_dir, layers) = stack(&[dir(0o1777), dir(0o2711), Tar::new().file("tmp/f", "1")]);
    assert_eq!(mode(&layers, "tmp"), Some(0o2711));
    let (_dir, layers) = stack(&[Tar::new().file("tmp/f", "1")]);
    assert_eq!(mode(&layers, "tmp"), Some(0o755));
}

#[test]
fn a_parent_that_is_a_link_below_becomes_a_directory_with_the_targets_attributes() {
    let base = Tar::new().head(&Head::new("usr/lib", b'5').mode(0o711)).symlink("lib", "usr/lib");
    let (_dir, layers) = stack(&[base, Tar::new().file("lib/f", "1")]);
    assert_eq!(mode(&layers, "lib"), Some(0o711));
    assert!(mode(&layers, "lib/f").is_some() && mode(&layers, "usr/lib/f").is_none());
}

#[test]
fn a_file_of_a_lower_layer_gets_its_new_name_through_links_too() {
    let base = Tar::new().with(Head::new("usr/bin/x", b'0').mode(0o4755), b"1").symlink("bin", "usr/bin");
    let (_dir, layers) = stack(&[base, Tar::new().hardlink("y", "bin/x").hardlink("z", "/usr/bin/x")]);
    for path in ["y", "z", "usr/bin/x"] {
        assert_eq!(mode(&layers[..1], path), Some(0o4755), "{path}");
    }
    let inode = |path: &str| match Lower::new(&layers).exact(path.as_bytes()).unwrap() {
        Some(Found::Other(_, _, stat)) => stat.st_ino,
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(inode("y"), inode("usr/bin/x"));
    assert_eq!(inode("y"), inode("z"));
}

#[test]
fn deleted_files_cannot_be_linked_to() {
    let gone = Tar::new().head(&Head::new(".wh.f", b'0'));
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    let layers = apart(&[Tar::new().file("f", "1").end(), gone.end()], &store);
    let link = NeedLink {
        path: crate::unpack::wire::ByteText(b"g".to_vec()),
        target: crate::unpack::wire::ByteText(b"f".to_vec()),
    };
    let needs = Needs { links: vec![link], ..Needs::default() };
    let staging = store.layer_stage().unwrap();
    let root = open(&staging.path().join("fs"));
    assert!(matches!(
        settle(root.as_fd(), &layers, &needs, &bounds(&Limits::default())),
        Err(FinishError::NoTarget { .. })
    ));
}
