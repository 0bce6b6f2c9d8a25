//! The corpus of odd layers: each must come out as a container would expect, or be refused, and none may leave its root.

use super::*;
use crate::unpack::test_tar::{Head, Tar};
use crate::unpack::wire::ByteText;
use rustix::fs::{OFlags, lgetxattr, lstat};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

struct Outcome {
    _dir: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    result: Result<Applied, ApplyError>,
}

impl Outcome {
    fn good(&self) -> &Applied {
        self.result.as_ref().unwrap_or_else(|error| panic!("{}", berth_core::error::chain(error)))
    }

    fn bad(&self) -> String {
        let error = self.result.as_ref().expect_err("the layer should be refused");
        assert!(
            matches!(Failure::from_ref(error).kind, FailureKind::BadLayer | FailureKind::TooBig),
            "{error}"
        );
        berth_core::error::chain(error)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn meta(&self, name: &str) -> std::fs::Metadata {
        std::fs::symlink_metadata(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn exists(&self, name: &str) -> bool {
        lstat(self.path(name)).is_ok()
    }
}

impl Failure {
    fn from_ref(error: &ApplyError) -> Self {
        let kind = match error {
            ApplyError::Limit { .. } => FailureKind::TooBig,
            ApplyError::Kernel { source, .. } if !layers_fault(*source) => FailureKind::Internal,
            _ => FailureKind::BadLayer,
        };
        Self { kind, text: error.to_string() }
    }
}

fn apply_bytes(bytes: &[u8]) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let fd = rustix::fs::open(&root, OFlags::DIRECTORY | OFlags::CLOEXEC, rustix::fs::Mode::empty()).unwrap();
    let limits = Limits { max_entries: 10_000, ..Limits::default() };
    let result = Applier::new(fd, limits).apply(&mut Reader::new(bytes));
    let outcome = Outcome { _dir: dir, root, outside, result };
    let kept: Vec<_> = std::fs::read_dir(&outcome.outside).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(kept, ["secret"], "something was written outside");
    assert_eq!(std::fs::read_to_string(outcome.outside.join("secret")).unwrap(), "secret");
    outcome
}

fn apply(tar: Tar) -> Outcome {
    apply_bytes(&tar.end())
}

fn paths(list: &[ByteText]) -> Vec<String> {
    list.iter().map(|path| String::from_utf8_lossy(&path.0).into_owned()).collect()
}

fn is_whiteout(path: &Path) -> bool {
    let meta = std::fs::symlink_metadata(path).unwrap();
    meta.file_type().is_char_device() && meta.rdev() == 0
}

#[test]
fn absolute_names_stay_inside_and_climbing_ones_are_refused() {
    let out = apply(Tar::new().file("/abs", "a").file("d/../e", "c").file("./f", "d"));
    out.good();
    assert_eq!(["abs", "e", "f"].map(|name| out.read(name)), ["a", "c", "d"]);
    assert!(!out.exists("d"));
    let climbing = [
        Tar::new().file("../up", "b"),
        Tar::new().dir("a/../../up"),
        Tar::new().head(&Head::new("../.wh.up", b'0')),
        Tar::new().symlink("../up", "x"),
        Tar::new().file("f", "").hardlink("l", "../../f"),
    ];
    for tar in climbing {
        assert!(apply(tar).bad().contains("leaves the layer's root"));
    }
}

#[test]
fn a_symlink_on_the_way_resolves_inside_the_root() {
    let out = apply(
        Tar::new()
            .symlink("abs", "/target")
            .file("abs/f", "1")
            .symlink("up", "../../../outside")
            .file("up/g", "2")
            .symlink("lib", "usr/lib")
            .file("lib/h", "3")
            .dir("usr"),
    );
    out.good();
    assert_eq!(out.read("target/f"), "1");
    assert_eq!(out.read("outside/g"), "2");
    assert_eq!(out.read("usr/lib/h"), "3");
    assert_eq!(std::fs::read_link(out.path("up")).unwrap().to_str(), Some("../../../outside"));
}

#[test]
fn link_texts_are_stored_unchanged() {
    let out = apply(
        Tar::new().symlink("x/y", "/../../etc/z").symlink("s", "../../../../q").symlink("d", "a//b/./c/"),
    );
    out.good();
    let text =
        |name: &str| std::fs::read_link(out.path(name)).unwrap().into_os_string().into_string().unwrap();
    assert_eq!([text("x/y"), text("s"), text("d")], ["/../../etc/z", "../../../../q", "a//b/./c/"]);
}

#[test]
fn an_entry_replaces_what_stands_at_its_path_and_never_writes_through_it() {
    let out = apply(
        Tar::new()
            .symlink("a", "/b")
            .dir("a")
            .file("a/in", "x")
            .file("f", "1")
            .dir("f")
            .file("f/deep/er", "2")
            .file("f", "3")
            .symlink("l", "victim")
            .file("victim", "keep")
            .file("l", "own"),
    );
    let applied = out.good();
    assert!(out.meta("a").is_dir() && !out.exists("b"));
    assert_eq!(out.read("f"), "3");
    assert_eq!((out.read("victim"), out.read("l")), ("keep".into(), "own".into()));
    assert_eq!(paths(&applied.needs.directories), Vec::<String>::new());
}

#[test]
fn a_symlink_and_a_directory_of_the_same_name_do_not_touch_the_target() {
    let tar = Tar::new().dir("t").head(&Head::new("t", b'5').mode(0o700)).symlink("s", "t");
    let out = apply(tar.head(&Head::new("s", b'5').mode(0o777)));
    out.good();
    assert_eq!(out.meta("t").mode() & 0o7777, 0o700);
    assert!(out.meta("s").is_dir());
}

#[test]
fn a_file_cannot_be_a_parent() {
    assert!(apply(Tar::new().file("f", "x").file("f/g", "y")).bad().contains("needs a directory"));
}

#[test]
fn link_loops_end() {
    let out = apply(Tar::new().symlink("a", "b").symlink("b", "a").file("a/x", ""));
    assert!(out.bad().contains("too many symlinks"));
}

#[test]
fn a_leftover_whiteout_below_a_replaced_directory_is_harmless_in_both_orders() {
    let first = apply(Tar::new().head(&Head::new("a/.wh.a", b'0')).symlink("a", "b").dir("b"));
    assert_eq!(std::fs::read_link(first.path("a")).unwrap().to_str(), Some("b"));
    assert_eq!(first.good().needs, Needs::default());
    let second = apply(Tar::new().dir("b").symlink("a", "b").head(&Head::new("a/.wh.a", b'0')));
    assert_eq!(std::fs::read_link(second.path("a")).unwrap().to_str(), Some("b"));
    assert_eq!(paths(&second.good().needs.whiteouts), ["b/a"]);
}

#[test]
fn whiteouts_delete_only_what_is_below() {
    let out = apply(
        Tar::new()
            .head(&Head::new(".wh.gone", b'0'))
            .file("kept", "x")
            .head(&Head::new(".wh.kept", b'0'))
            .head(&Head::new(".wh.back", b'0'))
            .file("back", "y"),
    );
    let applied = out.good();
    assert!(is_whiteout(&out.path("gone")));
    assert_eq!((out.read("kept"), out.read("back")), ("x".into(), "y".into()));
    assert_eq!(paths(&applied.needs.whiteouts), ["gone"]);
}

#[test]
fn a_deleted_and_remade_directory_hides_what_is_below_in_every_order() {
    let orders = [
        Tar::new().head(&Head::new(".wh.x", b'0')).dir("x").file("x/f", ""),
        Tar::new().dir("x").file("x/f", "").head(&Head::new(".wh.x", b'0')),
        Tar::new().head(&Head::new(".wh.x", b'0')).file("x/f", ""),
        Tar::new().file("x/f", "").head(&Head::new(".wh.x", b'0')),
        Tar::new().dir("x").head(&Head::new("x/.wh..wh..opq", b'0')).file("x/f", ""),
        Tar::new()
            .file("x/f", "")
            .head(&Head::new("x/.wh.g", b'0'))
            .head(&Head::new("x/.wh..wh..opq", b'0'))
            .dir("x"),
    ];
    for (at, order) in orders.into_iter().enumerate() {
        let out = apply(order);
        let applied = out.good();
        assert_eq!(applied.opaque, [b"x".to_vec()], "order {at}");
        assert_eq!(applied.needs, Needs::default(), "order {at}");
        assert!(out.exists("x/f") && !out.exists("x/.wh..wh..opq") && !out.exists("x/g"), "order {at}");
    }
}

#[test]
fn an_opaque_root_is_told_and_aufs_bookkeeping_is_left_out() {
    let tar = Tar::new().head(&Head::new(".wh..wh..opq", b'0')).head(&Head::new(".wh..wh.aufs", b'0'));
    let out = apply(tar.dir(".wh..wh.plnk").file(".wh..wh.plnk/1.2", "x").head(&Head::new(".wh.a", b'0')));
    let applied = out.good();
    assert!(applied.opaque_root);
    assert_eq!(std::fs::read_dir(&out.root).unwrap().count(), 0);
    assert_eq!(applied.needs, Needs::default());
}

#[test]
fn whiteouts_of_nothing_are_refused() {
    for name in [".wh.", "a/.wh..", "a/.wh..."] {
        assert!(apply(Tar::new().head(&Head::new(name, b'0'))).bad().contains("names no entry"), "{name}");
    }
}

#[test]
fn hard_links_go_anywhere_inside() {
    let out = apply(
        Tar::new()
            .file("d/a", "x")
            .hardlink("abs", "/d/a")
            .hardlink("up", "d/../d/a")
            .symlink("s", "d")
            .hardlink("via", "s/a")
            .hardlink("tolink", "s")
            .hardlink("early", "late")
            .file("late", "y")
            .hardlink("d/a", "d/a"),
    );
    out.good();
    let inode = out.meta("d/a").ino();
    assert!(["abs", "up", "via"].iter().all(|name| out.meta(name).ino() == inode));
    assert_eq!(std::fs::read_link(out.path("tolink")).unwrap().to_str(), Some("d"));
    assert_eq!(out.meta("early").ino(), out.meta("late").ino());
    assert_eq!(out.read("abs"), "x");
}

#[test]
fn hard_links_to_lower_files_are_written_down() {
    let out = apply(
        Tar::new().hardlink("n", "usr/bin/perl").hardlink("m", "n").file("x", "").hardlink("x", "/lower"),
    );
    let applied = out.good();
    let links: Vec<_> =
        applied.needs.links.iter().map(|l| paths(&[l.path.clone(), l.target.clone()])).collect();
    assert_eq!(links, [["m", "usr/bin/perl"], ["n", "usr/bin/perl"], ["x", "lower"]]);
    assert!(!out.exists("x"));
}

#[test]
fn hard_links_to_directories_whiteouts_and_outside_are_refused_or_stay_inside() {
    assert!(apply(Tar::new().dir("d").hardlink("l", "d")).bad().contains("to a directory"));
    assert!(apply(Tar::new().hardlink("l", "/")).bad().contains("to the root"));
    let deleted = Tar::new().head(&Head::new(".wh.w", b'0')).hardlink("l", "w");
    assert!(apply(deleted).bad().contains("deletes"));
    let escape = apply(Tar::new().symlink("o", "../outside").hardlink("l", "o/secret"));
    assert_eq!(escape.good().needs.links.len(), 1);
    assert!(apply(Tar::new().file("d/f", "").hardlink("d", "d/f")).bad().contains("its own target"));
}

#[test]
fn devices_and_pipes_are_made_as_such() {
    let out = apply(
        Tar::new()
            .head(&Head::new("c", b'3').device(1, 3).mode(0o666).owner(5, 6))
            .head(&Head::new("b", b'4').device(8, 1))
            .head(&Head::new("p", b'6').mode(0o640))
            .head(&Head::new("w", b'3').device(0, 0)),
    );
    let applied = out.good();
    let c = out.meta("c");
    assert!(c.file_type().is_char_device() && c.rdev() == rustix::fs::makedev(1, 3));
    assert_eq!((c.mode() & 0o7777, c.uid(), c.gid()), (0o666, 5, 6));
    assert!(out.meta("b").file_type().is_block_device());
    assert!(out.meta("p").file_type().is_fifo());
    assert_eq!(paths(&applied.needs.whiteouts), ["w"]);
    assert!(apply(Tar::new().head(&Head::new("c", b'3').device(0x1fff, 0))).bad().contains("out of range"));
}

#[test]
fn set_id_bits_and_capabilities_survive_the_owner() {
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let out = apply(
        Tar::new()
            .with(Head::new("su", b'0').mode(0o6755).owner(1000, 1001), b"x")
            .pax(&[("SCHILY.xattr.security.capability", &capability), ("SCHILY.xattr.user.k", b"v\0w")])
            .with(Head::new("ping", b'0').mode(0o755).owner(7, 7), b"x"),
    );
    assert_eq!(out.good().dropped_xattrs, 0);
    let su = out.meta("su");
    assert_eq!((su.mode() & 0o7777, su.uid(), su.gid()), (0o6755, 1000, 1001));
    let mut value = [0u8; 64];
    let length = lgetxattr(out.path("ping"), c"security.capability", &mut value).unwrap();
    assert_eq!(value[..length], capability);
    let length = lgetxattr(out.path("ping"), c"user.k", &mut value).unwrap();
    assert_eq!(&value[..length], b"v\0w");
}

#[test]
fn attributes_of_overlay_and_of_security_modules_are_not_the_images_to_set() {
    let out = apply(
        Tar::new()
            .pax(&[
                ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
                ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
                ("SCHILY.xattr.security.selinux", b"x"),
            ])
            .dir("d"),
    );
    assert_eq!(out.good().dropped_xattrs, 3);
    assert!(lgetxattr(out.path("d"), c"trusted.overlay.opaque", &mut [0u8; 8]).is_err());
}

#[test]
fn directories_get_mode_and_times_although_they_are_filled_later() {
    let out = apply(
        Tar::new()
            .pax(&[("mtime", b"1500000000.123456789")])
            .head(&Head::new("d", b'5').mode(0o500))
            .file("d/f", "x")
            .pax(&[("mtime", b"-1.5")])
            .file("old", "")
            .head(&Head::new("far", b'0').mtime(8_000_000_000)),
    );
    out.good();
    let d = out.meta("d");
    assert_eq!((d.mode() & 0o7777, d.mtime(), d.mtime_nsec()), (0o500, 1_500_000_000, 123_456_789));
    assert_eq!((out.meta("old").mtime(), out.meta("old").mtime_nsec()), (-2, 500_000_000));
    assert_eq!(out.meta("far").mtime(), 8_000_000_000);
}

#[test]
fn the_roots_own_entry_is_told() {
    let out =
        apply(Tar::new().head(&Head::new("./", b'5').mode(0o711).owner(3, 4).mtime(99)).file("./a", ""));
    let root = out.good().root.unwrap();
    assert_eq!((root.mode, root.uid, root.gid, root.mtime), (0o711, 3, 4, 99));
    assert!(apply(Tar::new().file("/", "x")).bad().contains("must be a directory"));
}

#[test]
fn implicit_directories_are_needs_and_explicit_ones_are_not() {
    let out = apply(Tar::new().file("tmp/a/f", "").dir("late/d").dir("late").dir("x/y"));
    assert_eq!(paths(&out.good().needs.directories), ["tmp", "tmp/a", "x"]);
    assert_eq!(out.meta("tmp").permissions().mode() & 0o7777, 0o755);
}

#[test]
fn owners_are_32_bits() {
    let out = apply(Tar::new().head(&Head::new("a", b'0').owner(0x8000_0000, 0xffff_fffe)));
    out.good();
    assert_eq!((out.meta("a").uid(), out.meta("a").gid()), (0x8000_0000, 0xffff_fffe));
    assert!(
        apply(Tar::new().head(&Head::new("a", b'0').owner(0xffff_ffff, 0))).bad().contains("out of range")
    );
    assert!(apply(Tar::new().head(&Head::new("a", b'0').owner(1 << 33, 0))).bad().contains("out of range"));
}

#[path = "formats_tests.rs"]
mod formats;
