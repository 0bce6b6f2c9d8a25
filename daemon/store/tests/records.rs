//! Records, images, layers, references and leases through the public door.

use berth_core::{Classified, ErrorClass};
use berth_image::{ImageConfig, ImageIndex, PulledImage};
use berth_network::Leases;
use berth_snapshot::{Digest, LayerIndex, LayerKey, LayerRecord};
use berth_store::{Row, Store, StoreError};
use std::collections::BTreeSet;
use std::net::IpAddr;

fn digest(digit: char) -> Digest {
    Digest::parse(&format!("sha256:{}", digit.to_string().repeat(64))).expect("digest")
}

fn key(digit: char) -> LayerKey {
    LayerKey::self_contained(&digest(digit))
}

fn put_layer(store: &Store, digit: char) {
    let record = LayerRecord { key: key(digit), diff_id: digest(digit), bytes: 1, inodes: 1, synced: false };
    store.put_layer(&record).expect("layer");
}

fn pulled(id: char, tag: Option<&str>, layers: &str) -> PulledImage {
    PulledImage {
        id: digest(id),
        repo_tag: tag.map(str::to_owned),
        repo_digest: format!("docker.io/library/x@{}", digest(id)),
        config: ImageConfig::default(),
        layers: layers.chars().map(key).collect(),
        size: 10,
    }
}

fn open() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::open(dir.path()).expect("store");
    (dir, store)
}

#[test]
fn records_survive_and_a_damaged_one_is_still_listed() {
    let dir = tempfile::tempdir().expect("dir");
    {
        let store = Store::open(dir.path()).expect("store");
        store.sandboxes().put("b", &("pod", 1)).expect("put");
        store.sandboxes().put("a", &"not a pair").expect("put");
        store.sandboxes().put("c", &("gone", 2)).expect("put");
        store.sandboxes().delete("c").expect("delete");
        store.sandboxes().delete("c").expect("a missing record is a success");
    }
    let store = Store::open(dir.path()).expect("again");
    let rows = store.sandboxes().all::<(String, u32)>().expect("all");
    assert_eq!(rows.len(), 2);
    assert!(matches!(&rows[0], (key, Row::Damaged(_)) if key == "a"));
    assert_eq!(rows[1], ("b".to_owned(), Row::Whole(("pod".to_owned(), 1))));
    assert_eq!(store.sandboxes().all_raw().expect("raw")[1], ("b".to_owned(), b"[\"pod\",1]".to_vec()));
    assert_eq!(store.containers().all_raw().expect("raw"), []);
    assert_eq!(store.sandboxes().get::<String>("a").expect("get"), Some(Row::Whole("not a pair".to_owned())));
}

#[test]
fn one_process_has_the_store() {
    let (dir, _store) = open();
    let error = Store::open(dir.path()).expect_err("second");
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    assert_eq!(error.class(), ErrorClass::FailedPrecondition);
}

#[test]
fn a_store_of_a_newer_writer_is_refused() {
    let dir = tempfile::tempdir().expect("dir");
    Store::open(dir.path()).expect("store").meta().set("min_reader", "99").expect("set");
    let error = Store::open(dir.path()).expect_err("too new");
    assert!(matches!(error, StoreError::TooNew { needs: 99, .. }), "{error}");
}

#[test]
fn boot_id_and_driver_are_kept() {
    let (_dir, store) = open();
    assert_eq!(store.meta().boot().expect("boot"), None);
    for boot in ["one", "two"] {
        store.meta().note_boot(boot).expect("note");
        assert_eq!(store.meta().boot().expect("boot").as_deref(), Some(boot));
    }
    assert_eq!(store.meta().cgroup_driver().expect("get"), None);
    store.meta().set_cgroup_driver("systemd").expect("set");
    assert_eq!(store.meta().cgroup_driver().expect("get").as_deref(), Some("systemd"));
}

#[test]
fn an_image_is_committed_with_its_layers_or_not_at_all() {
    let (_dir, store) = open();
    put_layer(&store, '1');
    let error =
        store.commit_image(&pulled('a', Some("docker.io/library/x:1"), "12")).expect_err("no layer 2");
    assert_eq!(error.class(), ErrorClass::Aborted);
    assert_eq!(store.images().expect("images"), []);
    assert!(
        !store.layer(&key('1')).expect("layer").expect("there").synced,
        "nothing of a failed commit stays"
    );
    put_layer(&store, '2');
    store.commit_image(&pulled('a', Some("docker.io/library/x:1"), "12")).expect("commit");
    assert!(store.layer(&key('1')).expect("layer").expect("there").synced);
    assert_eq!(store.image(&digest('a')).expect("image").expect("there").layers, [key('1'), key('2')]);
}

#[test]
fn a_tag_names_one_image_and_names_gather() {
    let (_dir, store) = open();
    put_layer(&store, '1');
    let tag = "docker.io/library/x:1";
    store.commit_image(&pulled('a', Some(tag), "1")).expect("a");
    store.commit_image(&pulled('b', Some(tag), "1")).expect("b");
    store.commit_image(&pulled('b', Some("docker.io/library/x:2"), "1")).expect("b again");
    let image = |id| store.image(&digest(id)).expect("image").expect("there");
    assert_eq!(image('a').repo_tags, Vec::<String>::new());
    assert_eq!(image('b').repo_tags, [tag, "docker.io/library/x:2"]);
    assert!(store.remove_image(&digest('b')).expect("remove"));
    assert!(!store.remove_image(&digest('b')).expect("remove twice"));
}

#[test]
fn layers_live_while_an_image_a_container_or_a_pull_needs_them() {
    let (_dir, store) = open();
    "1234".chars().for_each(|digit| put_layer(&store, digit));
    store.commit_image(&pulled('a', None, "12")).expect("a");
    store.create_container("c1", digest('a').to_string().as_str(), &"record").expect("create");
    store.remove_image(&digest('a')).expect("removing an image in use succeeds");
    let keep = BTreeSet::from([key('3')]);
    assert_eq!(store.remove_unreferenced_layers(&keep).expect("gc"), [key('4')]);
    store.delete_container("c1").expect("delete");
    store.delete_container("c1").expect("delete twice");
    assert_eq!(
        store.remove_unreferenced_layers(&BTreeSet::new()).expect("gc"),
        [key('1'), key('2'), key('3')]
    );
    assert_eq!(store.layers().expect("layers"), []);
}

#[test]
fn no_container_without_its_image() {
    let (_dir, store) = open();
    let error = store.create_container("c1", "sha256:none", &"record").expect_err("no image");
    assert!(matches!(error, StoreError::NoImage(_)));
    assert_eq!(store.containers().all_raw().expect("raw"), []);
}

#[test]
fn leases_are_kept_given_back_and_never_doubled() {
    let (_dir, store) = open();
    let address = |n: u8| IpAddr::from([10, 0, 0, n]);
    let mut first_free = |busy: &BTreeSet<IpAddr>| (2..4).map(address).find(|ip| !busy.contains(ip));
    let mut get = |owner: &str| store.acquire("10.0.0.0/24", owner, &mut first_free).expect("acquire");
    assert_eq!(
        [get("a"), get("b"), get("a"), get("c")],
        [Some(address(2)), Some(address(3)), Some(address(2)), None]
    );
    store.release("a").expect("release");
    store.release("a").expect("release twice");
    assert_eq!(get("c"), Some(address(2)));
    assert_eq!(store.held("b").expect("held").len(), 1);
    let owners: Vec<String> = store.list().expect("list").into_iter().map(|lease| lease.owner).collect();
    assert_eq!(owners, ["c", "b"]);
}
