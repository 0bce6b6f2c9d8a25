//! What a few crafted bytes may cost the daemon.

use super::*;
use crate::unpack::wire::ByteText;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

static WANTED: AtomicBool = AtomicBool::new(false);

fn open(path: &Path) -> OwnedFd {
    openat(rustix::fs::CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

fn link(path: &str, target: &str) -> NeedLink {
    NeedLink { path: ByteText(path.into()), target: ByteText(target.into()) }
}

struct Two {
    _dir: tempfile::TempDir,
    below: std::path::PathBuf,
    here: std::path::PathBuf,
}

impl Two {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (below, here) = (dir.path().join("below"), dir.path().join("here"));
        std::fs::create_dir(&below).unwrap();
        std::fs::create_dir(&here).unwrap();
        Self { _dir: dir, below, here }
    }

    fn settle(&self, needs: &Needs, limits: &Limits, given_up: &AtomicBool) -> Result<Settled, FinishError> {
        let (root, below) = (open(&self.here), open(&self.below));
        settle(root.as_fd(), &[below], needs, &Bounds { limits, given_up })
    }
}

#[test]
fn holes_are_not_copied_and_data_is() {
    use std::os::unix::fs::FileExt;
    let two = Two::new();
    let file = std::fs::File::create(two.below.join("big")).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(b"in the middle", 1 << 39).unwrap();
    file.write_all_at(b"end", (1 << 40) - 3).unwrap();
    let needs = Needs { links: vec![link("l", "big")], ..Needs::default() };
    let settled = two.settle(&needs, &Limits::default(), &WANTED).unwrap();
    assert_eq!(settled.inodes, 1);
    assert!(settled.bytes <= 1 << 20, "{settled:?}");
    let copy = std::fs::File::open(two.here.join("l")).unwrap();
    let found = copy.metadata().unwrap();
    assert!(found.len() == 1 << 40 && found.blocks() * 512 <= 1 << 20 && found.nlink() == 2);
    let mut text = [0u8; 13];
    copy.read_exact_at(&mut text, 1 << 39).unwrap();
    assert_eq!(&text, b"in the middle");
    copy.read_exact_at(&mut text[..3], (1 << 40) - 3).unwrap();
    assert_eq!(&text[..3], b"end");
}

#[test]
fn more_than_the_limit_is_not_copied_and_nothing_is_copied_twice() {
    let two = Two::new();
    std::fs::write(two.below.join("one"), vec![1u8; 100_000]).unwrap();
    for at in 0..20 {
        std::fs::hard_link(two.below.join("one"), two.below.join(format!("name{at}"))).unwrap();
    }
    std::fs::write(two.below.join("two"), vec![1u8; 100_000]).unwrap();
    let limits = Limits { max_copied: 150_000, ..Limits::default() };
    // Names of the same file, at paths where it may stand and at paths where something else does.
    std::fs::write(two.here.join("d"), "").unwrap();
    std::fs::create_dir(two.below.join("d")).unwrap();
    std::fs::hard_link(two.below.join("one"), two.below.join("d/one")).unwrap();
    let mut links: Vec<_> = (0..20).map(|at| link(&format!("l{at}"), &format!("name{at}"))).collect();
    links.push(link("m", "d/one"));
    links.push(link("n", "d/one"));
    let needs = Needs { links, ..Needs::default() };
    assert_eq!(two.settle(&needs, &limits, &WANTED).unwrap().bytes, 100_000);
    let inode = |name: &str| std::fs::metadata(two.here.join(name)).unwrap().ino();
    assert!(["l19", "name7", "m", "n"].iter().all(|name| inode(name) == inode("l0")));
    let two = Two { here: two.here.join("again"), ..two };
    std::fs::create_dir(&two.here).unwrap();
    let needs = Needs { links: vec![link("a", "one"), link("b", "two")], ..Needs::default() };
    let error = two.settle(&needs, &limits, &WANTED).unwrap_err();
    assert!(matches!(error, FinishError::Copy { source: CopyError::TooMuch, .. }), "{error:?}");
    assert_eq!(error.class(), ErrorClass::FailedPrecondition);
}

#[test]
fn many_links_are_no_quadratic_work() {
    let two = Two::new();
    std::fs::write(two.below.join("f"), "x").unwrap();
    let links = (0..20_000).map(|at| link(&format!("l{at}"), "f")).collect();
    let begun = Instant::now();
    two.settle(&Needs { links, ..Needs::default() }, &Limits::default(), &WANTED).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(std::fs::metadata(two.here.join("l0")).unwrap().nlink(), 20_001);
}

#[test]
fn what_nobody_waits_for_ends() {
    let two = Two::new();
    std::fs::write(two.below.join("f"), "x").unwrap();
    let needs = Needs { links: vec![link("l", "f")], ..Needs::default() };
    let error = two.settle(&needs, &Limits::default(), &AtomicBool::new(true)).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Cancelled);
}

#[test]
fn links_with_dots_lead_where_they_say() {
    let two = Two::new();
    std::fs::create_dir_all(two.below.join("a/b/c")).unwrap();
    std::fs::create_dir_all(two.below.join("a/d")).unwrap();
    std::fs::write(two.below.join("a/d/f"), "x").unwrap();
    std::os::unix::fs::symlink("../../b/../d", two.below.join("a/b/up")).unwrap();
    std::os::unix::fs::symlink("/a/b/c/../../../a/d", two.below.join("root")).unwrap();
    let layers = [open(&two.below)];
    let lower = Lower::new(&layers);
    // Above the root there is the root.
    std::os::unix::fs::symlink("../../../../a/d", two.below.join("far")).unwrap();
    for path in ["a/d/f", "root/f", "far/f"] {
        let found = lower.file(path.as_bytes()).unwrap();
        assert_eq!(found.map(|(real, _)| real).as_deref(), Some(&b"a/d/f"[..]), "{path}");
    }
    assert!(lower.file(b"a/b/up/f").unwrap().is_none());
}
