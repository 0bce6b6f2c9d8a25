//! Root file systems that a caller describes as mounts, with owners mapped.

use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use berth_runtime::{RootMount, mount_root, unmount_root};

use super::Test;
use super::bundle::exe;

pub(crate) const TESTS: &[Test] = &[
    ("given::overlay_with_mapped_owners", overlay_with_mapped_owners),
    ("given::overlay_of_names", overlay_of_names),
    ("given::bind_with_mapped_owners", bind_with_mapped_owners),
    ("given::bad_mappings_leave_nothing", bad_mappings_leave_nothing),
];

/// Layers with files of root's and of the user 7; removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("berth-given-{}-{name}", std::process::id()));
        for (layer, file) in [("l1", "a"), ("l2", "b")] {
            std::fs::create_dir_all(dir.join(layer)).expect("mkdir");
            std::fs::write(dir.join(layer).join(file), layer).expect("write");
        }
        chown(dir.join("l2/b"), Some(7), Some(8)).expect("chown");
        for name in ["up", "work", "root"] {
            std::fs::create_dir_all(dir.join(name)).expect("mkdir");
        }
        chown(dir.join("up"), Some(1000), Some(2000)).expect("chown");
        Self(dir)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    fn owner(&self, path: &str) -> (u32, u32) {
        let about =
            std::fs::symlink_metadata(self.root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        (about.uid(), about.gid())
    }

    fn overlay(&self, more: &[&str]) -> RootMount {
        let at = |name: &str| self.0.join(name).display().to_string();
        let layers = [
            format!("lowerdir={}:{}", at("l1"), at("l2")),
            format!("upperdir={}", at("up")),
            format!("workdir={}", at("work")),
        ];
        let options = layers.into_iter().chain(more.iter().map(|o| (*o).to_owned())).collect();
        RootMount {
            kind: "overlay".to_owned(),
            source: "overlay".to_owned(),
            options,
            ..RootMount::default()
        }
    }

    fn mount(&self, mount: RootMount) -> Result<(), String> {
        mount_root(&[mount], &self.root(), exe().as_fd()).map_err(|e| e.to_string())
    }

    fn mounts(&self) -> Vec<String> {
        let all = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let place = self.0.display().to_string();
        all.lines().filter(|line| line.contains(&place)).map(str::to_owned).collect()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = unmount_root(&self.root());
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const MAPS: [&str; 2] = ["uidmap=0:1000:100", "gidmap=0:2000:50,50:9000:10"];

/// What lies below is seen with other owners, what is written keeps the owner it is written by.
fn overlay_with_mapped_owners() {
    let tree = Tree::new("overlay");
    tree.mount(tree.overlay(&[&["index=off"], &MAPS[..]].concat())).expect("mount");
    assert_eq!(
        (tree.owner("."), tree.owner("a"), tree.owner("b")),
        ((1000, 2000), (1000, 2000), (1007, 2008))
    );
    std::fs::write(tree.root().join("new"), "").expect("write");
    std::fs::write(tree.root().join("b"), "changed").expect("write");
    assert_eq!((tree.owner("new"), tree.owner("b")), ((0, 0), (1007, 2008)));
    assert_eq!(tree.mounts().len(), 1, "{:#?}", tree.mounts());
    unmount_root(&tree.root()).expect("unmount");
    assert_eq!(tree.mounts(), <[String; 0]>::default());
    let below = std::fs::metadata(tree.0.join("l2/b")).expect("stat");
    assert_eq!((below.uid(), below.gid(), below.len()), (7, 8, 2));
}

/// The same where overlayfs takes its layers by name only.
fn overlay_of_names() {
    if super::old::is_restricted() {
        return;
    }
    let (well, text) =
        super::old::again(&[super::old::BY_NAME, "given::overlay_with_mapped", "given::bad_mappings"]);
    assert!(well && text.contains("2 tests, 0 failed"), "{text}");
}

fn bind_with_mapped_owners() {
    let tree = Tree::new("bind");
    let options = [&["bind", "ro"], &MAPS[..]].concat().iter().map(|o| (*o).to_owned()).collect();
    let source = tree.0.join("l2").display().to_string();
    tree.mount(RootMount { kind: "bind".to_owned(), source, options, ..RootMount::default() })
        .expect("mount");
    assert_eq!(tree.owner("b"), (1007, 2008));
    assert!(std::fs::write(tree.root().join("b"), "").is_err(), "it is not read-only");
}

fn bad_mappings_leave_nothing() {
    let tree = Tree::new("bad");
    for (maps, word) in [
        (vec!["uidmap=0:1000:100"], "gidmap="),
        (vec!["uidmap=0:1000", "gidmap=0:0:1"], "uidmap=0:1000 is not"),
        (vec!["uidmap=0:0:1\n", "gidmap=0:0:1"], "uidmap=0:0:1\\n is not"),
        (vec!["uidmap=0:0:1", "gidmap=0:0:4294967295,1:1:1"], "maps an id twice"),
    ] {
        let error = tree.mount(tree.overlay(&maps)).expect_err("hostile");
        assert!(error.contains(word), "{error}");
        assert_eq!(tree.mounts(), <[String; 0]>::default(), "{maps:?}");
    }
    assert!(Path::new(&tree.root()).read_dir().expect("list").next().is_none());
}
