//! The store's promises: nothing half made is seen, nothing missing is an error to remove.

use super::*;
use crate::digest::Digest;

fn key(digit: char) -> LayerKey {
    LayerKey::self_contained(&Digest::parse(&format!("sha256:{}", digit.to_string().repeat(64))).unwrap())
}

fn layer(store: &Snapshots, digit: char, meta: &LayerMeta) -> LayerKey {
    let staging = store.layer_stage().unwrap();
    std::fs::write(staging.path().join(format!("fs/{digit}")), "x").unwrap();
    store.layer_commit(staging, &key(digit), meta).unwrap();
    key(digit)
}

#[test]
fn a_dropped_staging_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    let staging = store.layer_stage().unwrap();
    let path = staging.path().to_owned();
    std::fs::write(path.join("fs/a"), "x").unwrap();
    drop(staging);
    assert!(!path.exists());
    assert_eq!(store.layers().unwrap(), []);
}

#[test]
fn leftovers_of_a_crash_go_at_open() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    std::mem::forget(store.layer_stage().unwrap());
    Snapshots::open(dir.path()).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("staging")).unwrap().count(), 0);
}

#[test]
fn the_second_commit_of_a_layer_keeps_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    layer(&store, 'a', &LayerMeta::default());
    layer(&store, 'a', &LayerMeta::default());
    assert_eq!(store.layers().unwrap(), [key('a')]);
    assert_eq!(std::fs::read_dir(dir.path().join("staging")).unwrap().count(), 0);
}

#[test]
fn a_plan_lists_the_topmost_first_and_the_upper_has_the_images_root() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    let root = |mode| Some(RootAttributes { mode, ..RootAttributes::default() });
    let a = layer(&store, 'a', &LayerMeta { root: root(0o700), ..LayerMeta::default() });
    let b = layer(&store, 'b', &LayerMeta { root: root(0o711), ..LayerMeta::default() });
    let c = layer(&store, 'c', &LayerMeta::default());
    let plan = store.container_create("c1", &[a.clone(), b.clone(), c.clone()]).unwrap();
    assert_eq!(plan.lower, [c, b, a].map(|key| store.layer_path(&key)));
    let mode = rustix::fs::lstat(&plan.upper).unwrap().st_mode;
    assert_eq!(mode & 0o7777, 0o711);
}

#[test]
fn a_layer_that_hides_all_below_ends_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    let a = layer(&store, 'a', &LayerMeta::default());
    let b = layer(&store, 'b', &LayerMeta { opaque_root: true, ..LayerMeta::default() });
    let plan = store.container_create("c1", &[a, b.clone()]).unwrap();
    assert_eq!(plan.lower, [store.layer_path(&b)]);
}

#[test]
fn creating_twice_and_missing_layers_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    assert!(matches!(store.container_create("c1", &[key('f')]), Err(Error::NoLayer(_))));
    assert_eq!(store.containers().unwrap(), Vec::<String>::new());
    let a = layer(&store, 'a', &LayerMeta::default());
    store.container_create("c1", std::slice::from_ref(&a)).unwrap();
    assert!(matches!(store.container_create("c1", &[a]), Err(Error::ContainerExists(_))));
    store.container_remove("c1").unwrap();
    store.container_remove("c1").unwrap();
}

#[test]
fn ids_that_are_paths_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    for id in ["", "..", "a/b", "../layers"] {
        assert!(matches!(store.container_remove(id), Err(Error::BadId(_))), "{id}");
    }
}

#[test]
fn a_layer_that_occurs_twice_is_mounted_once_at_its_topmost_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    let root =
        |mode| LayerMeta { root: Some(RootAttributes { mode, ..Default::default() }), ..Default::default() };
    let empty = layer(&store, 'e', &root(0o711));
    let full = layer(&store, 'f', &root(0o700));
    let other = layer(&store, 'b', &LayerMeta::default());
    let layers = [&full, &empty, &other, &empty, &full, &empty].map(Clone::clone);
    let plan = store.container_create("c1", &layers).unwrap();
    assert_eq!(plan.lower, [&empty, &full, &other].map(|key| store.layer_path(key)));
    assert_eq!(rustix::fs::lstat(&plan.upper).unwrap().st_mode & 0o7777, 0o711);
    let many: Vec<_> = std::iter::repeat_n(empty.clone(), 600).collect();
    assert_eq!(store.container_create("c2", &many).unwrap().lower, [store.layer_path(&empty)]);
}

#[test]
fn what_cannot_be_removed_does_not_keep_the_store_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Snapshots::open(dir.path()).unwrap();
    let staging = store.layer_stage().unwrap();
    let busy = staging.path().join("fs");
    rustix::mount::mount(&busy, &busy, c"", rustix::mount::MountFlags::BIND, None).unwrap();
    std::mem::forget(staging);
    let store = Snapshots::open(dir.path()).unwrap();
    let stuck = matches!(store.leftovers(), [Error::Mounted(_)]);
    let next = store.layer_stage();
    rustix::mount::unmount(&busy, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(stuck && next.is_ok());
}
