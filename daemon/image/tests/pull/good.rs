//! What a pull gives when all goes well.

use crate::image::{INDEX, Image, MANIFEST};
use crate::node::Node;
use crate::registry::Registry;
use crate::tar::{Head, Tar};
use berth_image::{Event, ImageIndex, Progress, PullRequest, Reference, Spool, lookup};
use berth_snapshot::{LayerIndex, LayerKey};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

fn two_layers() -> Image {
    let base =
        Tar::new().dir("bin").file("bin/x", "program").dir("tmp").head(&Head::new("tmp", b'5').mode(0o1777));
    let top = Tar::new().dir("etc").file("etc/page", "hello");
    Image::new(vec![base.end(), top.end()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_makes_layers_and_a_plan() {
    let (registry, node) = (Registry::start().await, Node::new());
    let pushed = two_layers().push(&registry, "team/app", "v1");
    let name = format!("{}/team/app:v1", registry.host());
    let image = node.pull(&name).await.unwrap();
    assert_eq!(image.id, pushed.config);
    assert_eq!(image.repo_tag.as_deref(), Some(name.as_str()));
    assert_eq!(image.repo_digest, format!("{}/team/app@{}", registry.host(), pushed.manifest));
    assert_eq!((image.config.env[0].as_str(), image.config.user.as_str()), ("A=1", "33:10"));
    assert_eq!(node.read(&image, 0, "bin/x"), "program");
    let plan = node.snapshots.container_create("c1", &image.layers).unwrap();
    assert_eq!(plan.lower.len(), 2);
    assert_eq!(std::fs::read_to_string(plan.lower[0].join("etc/page")).unwrap(), "hello");
    assert_eq!(std::fs::metadata(plan.lower[1].join("tmp")).unwrap().mode() & 0o7777, 0o1777);
    for text in [name.clone(), image.id.to_string(), image.id.hex().to_owned(), image.repo_digest.clone()] {
        assert_eq!(lookup(&*node.index, &text).unwrap().unwrap().id, image.id, "{text}");
    }
    node.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_gives_this_nodes_image_and_keeps_its_own_digest() {
    let (registry, node) = (Registry::start().await, Node::new());
    let mine = two_layers().push(&registry, "a", "mine");
    let mut other = two_layers();
    other.architecture = "s390x".into();
    let other = other.push(&registry, "a", "other");
    let arch = berth_image::Platform::host().architecture;
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {"mediaType": MANIFEST, "digest": other.manifest, "size": 1, "platform": {"os": "linux", "architecture": "s390x"}},
        {"mediaType": MANIFEST, "digest": mine.manifest, "size": 1, "platform": {"os": "linux", "architecture": arch}},
    ]});
    let index = serde_json::to_vec(&index).unwrap();
    registry.put("/v2/a/manifests/multi", INDEX, index.clone());
    let image = node.pull(&format!("{}/a:multi", registry.host())).await.unwrap();
    assert_eq!(image.id, mine.config);
    assert!(image.repo_digest.ends_with(&crate::image::sha256(&index).to_string()));
    let error = node.pull(&format!("{}/a:other", registry.host())).await.unwrap_err();
    assert!(crate::node::text(&error).contains("linux/s390x"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layers_are_shared_and_a_second_pull_fetches_nothing() {
    let (registry, node) = (Registry::start().await, Node::new());
    let first = two_layers().push(&registry, "a", "1");
    let mut other = two_layers();
    other.tars[1] = Tar::new().file("new", "n").end();
    other.push(&registry, "b", "1");
    let image = node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    let again = node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    let other = node.pull(&format!("{}/b:1", registry.host())).await.unwrap();
    assert_eq!(image.layers, again.layers);
    assert_eq!(image.layers[0], other.layers[0]);
    assert_eq!(registry.count(&first.layers[0].to_string()), 1);
    assert_eq!(registry.count(&first.layers[1].to_string()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_pulls_at_the_same_time_are_one() {
    let (registry, node) = (Registry::start().await, Node::new());
    let pushed = two_layers().push(&registry, "a", "1");
    let name = format!("{}/a:1", registry.host());
    let pulls: Vec<_> = (0..8)
        .map(|_| {
            let (puller, reference) = (node.puller.clone(), Reference::parse(&name).unwrap());
            tokio::spawn(async move { puller.pull(PullRequest::new(reference)).await })
        })
        .collect();
    for pull in pulls {
        assert_eq!(pull.await.unwrap().unwrap().id, pushed.config);
    }
    assert_eq!(registry.count("/manifests/"), 1);
    assert_eq!(registry.count("/blobs/"), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_that_needs_those_below_is_finished_against_them() {
    let (registry, node) = (Registry::start().await, Node::new());
    let base = Tar::new()
        .head(&Head::new("tmp", b'5').mode(0o1777).owner(1, 2).mtime(77))
        .dir("usr/lib")
        .symlink("lib", "usr/lib")
        .with(Head::new("bin/tool", b'0').mode(0o4755).owner(5, 5), b"tool")
        .file("old", "x");
    let top = Tar::new()
        .file("tmp/f", "1")
        .head(&Head::new(".wh.old", b'0'))
        .head(&Head::new(".wh.never", b'0'))
        .hardlink("bin/alias", "bin/tool");
    let image = Image::new(vec![base.end(), top.end()]);
    image.push(&registry, "a", "1");
    let image = node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    // The base has directories without entries, too, and nothing below: it is finished against nothing.
    assert!(image.layers.iter().all(|key| !key.is_self_contained()));
    let fs = node.snapshots.layer_path(&image.layers[1]);
    let tmp = std::fs::metadata(fs.join("tmp")).unwrap();
    assert_eq!((tmp.mode() & 0o7777, tmp.uid(), tmp.gid(), tmp.mtime()), (0o1777, 1, 2, 77));
    assert!(std::fs::symlink_metadata(fs.join("old")).unwrap().rdev() == 0 && !fs.join("never").exists());
    let (alias, tool) =
        (std::fs::metadata(fs.join("bin/alias")).unwrap(), std::fs::metadata(fs.join("bin/tool")).unwrap());
    assert_eq!(alias.ino(), tool.ino());
    assert_eq!((tool.mode() & 0o7777, tool.uid()), (0o4755, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_of_the_bytes_gives_the_same_layer() {
    let registry = Registry::start().await;
    let noise: Vec<u8> =
        (0..3_000_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let tar = Tar::new().with(Head::new("noise", b'0'), &noise).file("after", "x");
    Image::new(vec![tar.end()]).push(&registry, "a", "1");
    for spool in [Spool::Never, Spool::Always] {
        let node = Node::with(|options| options.spool = spool);
        let image = node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
        let path = node.snapshots.layer_path(&image.layers[0]).join("noise");
        assert!(std::fs::read(path).unwrap() == noise, "{spool:?}");
        node.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_counts_every_byte() {
    let (registry, node) = (Registry::start().await, Node::new());
    two_layers().push(&registry, "a", "1");
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let heard = Arc::clone(&events);
    let mut request = PullRequest::new(Reference::parse(&format!("{}/a:1", registry.host())).unwrap());
    request.progress = Progress::new(move |event| heard.lock().unwrap().push(event));
    node.puller.pull(request).await.unwrap();
    let events = events.lock().unwrap();
    let Some(Event::Layers(layers)) = events.iter().find(|event| matches!(event, Event::Layers(_))) else {
        panic!("no layers told")
    };
    for (at, layer) in layers.iter().enumerate() {
        assert!(events.contains(&Event::Fetched { layer: at, bytes: layer.size }));
        assert!(events.iter().any(|event| matches!(event, Event::Applied { layer, .. } if *layer == at)));
    }
    assert!(matches!(events[0], Event::Resolved { .. }) && events.last() == Some(&Event::Syncing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_what_nothing_refers_to() {
    let (registry, node) = (Registry::start().await, Node::new());
    two_layers().push(&registry, "a", "1");
    let mut other = two_layers();
    other.tars.truncate(1);
    other.push(&registry, "b", "1");
    let a = node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    let b = node.pull(&format!("{}/b:1", registry.host())).await.unwrap();
    assert_eq!(node.puller.collect_garbage().unwrap(), []);
    assert!(node.index.remove_image(&a.id).unwrap());
    assert_eq!(node.puller.collect_garbage().unwrap(), [a.layers[1].clone()]);
    assert_eq!(node.snapshots.layers().unwrap(), b.layers);
    node.assert_clean();
    // And the layer comes back when it is wanted again.
    node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    assert_eq!(node.snapshots.layers().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_brings_records_and_directories_together() {
    let (registry, node) = (Registry::start().await, Node::new());
    two_layers().push(&registry, "a", "1");
    let image = node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    assert_eq!(node.puller.recover(false).unwrap(), berth_image::pull::collect::Recovered::default());
    // A layer that was never synced, a directory without a record, and a record without a directory.
    let mut record = node.index.layer(&image.layers[0]).unwrap().unwrap();
    record.key = LayerKey::parse(&format!("diff-sha256-{}", "1".repeat(64))).unwrap();
    record.synced = false;
    let staging = node.snapshots.layer_stage().unwrap();
    node.snapshots.layer_commit(staging, &record.key, &Default::default()).unwrap();
    node.index.put_layer(&record).unwrap();
    assert_eq!(node.puller.recover(true).unwrap().layers, []);
    let stray = LayerKey::parse(&format!("chain-sha256-{}", "2".repeat(64))).unwrap();
    let staging = node.snapshots.layer_stage().unwrap();
    node.snapshots.layer_commit(staging, &stray, &Default::default()).unwrap();
    node.snapshots.layer_remove(&image.layers[1]).unwrap();
    let recovered = node.puller.recover(false).unwrap();
    assert_eq!(recovered.images, [image.id.to_string()]);
    assert_eq!(
        recovered.layers,
        [stray, record.key, image.layers[1].clone()]
            .into_iter()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    assert_eq!(node.snapshots.layers().unwrap(), [image.layers[0].clone()]);
}
