//! Registries and images that must be refused, with a reason, and leave nothing behind.

use crate::image::{Image, MANIFEST, gzip, sha256};
use crate::node::{Node, text};
use crate::registry::{Answer, Registry};
use crate::tar::{Head, Tar};
use berth_core::{Classified, ErrorClass, KubeletWord};
use berth_image::unpack::Limits;
use berth_image::{PullRequest, Reference};
use std::time::Duration;

async fn refused(node: &Node, name: &str, class: ErrorClass, words: &[&str]) {
    let error = node.pull(name).await.unwrap_err();
    let text = text(&error);
    assert_eq!(error.class(), class, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    node.assert_clean();
    assert_eq!(node.snapshots.layers().unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_is_not_found_with_the_registrys_words() {
    let (registry, node) = (Registry::start().await, Node::new());
    let words = ["404", "manifest unknown", registry.host().leak()];
    refused(&node, &format!("{}/a:none", registry.host()), ErrorClass::NotFound, &words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_is_down_is_unavailable_in_the_kubelets_word() {
    let node = Node::new();
    // A port that was just closed.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = node.pull(&format!("127.0.0.1:{port}/a:1")).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    assert_eq!(error.word(), Some(KubeletWord::RegistryUnavailable));
    assert!(text(&error).contains(&port.to_string()), "{}", text(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_manifests_are_not_read() {
    let (registry, node) = (Registry::start().await, Node::new());
    registry.put("/v2/a/manifests/1", MANIFEST, vec![b' '; (4 << 20) + 1]);
    refused(&node, &format!("{}/a:1", registry.host()), ErrorClass::FailedPrecondition, &["larger than"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_digests_are_refused_everywhere() {
    let registry = Registry::start().await;
    let image = Image::new(vec![Tar::new().file("f", "x").end()]);
    let pushed = image.push(&registry, "a", "1");
    let name = format!("{}/a:1", registry.host());
    for path in [format!("/v2/a/blobs/{}", pushed.layers[0]), format!("/v2/a/blobs/{}", pushed.config)] {
        let good = registry.content(&path);
        let mut bad = good.to_vec();
        *bad.last_mut().unwrap() ^= 1;
        registry.put(&path, "x", bad);
        let node = Node::new();
        let error = node.pull(&name).await.unwrap_err();
        assert!(
            matches!(error.class(), ErrorClass::DataLoss | ErrorClass::FailedPrecondition),
            "{}",
            text(&error)
        );
        node.assert_clean();
        registry.put(&path, "x", good);
    }
    let manifest = registry.content("/v2/a/manifests/1");
    let other = format!("sha256:{}", "0".repeat(64));
    registry.put(&format!("/v2/a/manifests/{other}"), MANIFEST, manifest);
    let by_digest = format!("{}/a@{other}", registry.host());
    refused(&Node::new(), &by_digest, ErrorClass::DataLoss, &["digest"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_must_unpack_to_what_the_configuration_says() {
    let (registry, node) = (Registry::start().await, Node::new());
    let image = Image::new(vec![Tar::new().file("f", "x").end()]);
    image.push(&registry, "a", "1");
    let blob = gzip(&Tar::new().file("f", "other").end());
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&registry.content("/v2/a/manifests/1")).unwrap();
    manifest["layers"][0]["digest"] = sha256(&blob).to_string().into();
    manifest["layers"][0]["size"] = blob.len().into();
    registry.put(&format!("/v2/a/blobs/{}", sha256(&blob)), "x", blob);
    registry.put("/v2/a/manifests/1", MANIFEST, serde_json::to_vec(&manifest).unwrap());
    refused(&node, &format!("{}/a:1", registry.host()), ErrorClass::DataLoss, &["unpacks to"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_layers_name_the_entry() {
    for (tar, word) in [
        (Tar::new().file("f", "").file("f/g", ""), "needs a directory"),
        (Tar::new().head(&Head::new("bad/.wh.", b'0')), "bad/.wh."),
        (Tar::new().hardlink("l", "nowhere"), "nowhere"),
        (Tar::new().head(&Head::new("u", b'0').owner(0xffff_ffff, 0)), "out of range"),
    ] {
        let (registry, node) = (Registry::start().await, Node::new());
        Image::new(vec![tar.end()]).push(&registry, "a", "1");
        let name = format!("{}/a:1", registry.host());
        refused(&node, &name, ErrorClass::FailedPrecondition, &["layer sha256:", word]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_are_stopped() {
    let (registry, node) = (
        Registry::start().await,
        Node::with(|options| options.limits = Limits { max_bytes: 1 << 20, ..Limits::default() }),
    );
    let zeros = vec![0u8; 3 << 20];
    Image::new(vec![Tar::new().with(Head::new("z", b'0'), &zeros).end()]).push(&registry, "a", "1");
    let words = ["decompresses to far more"];
    refused(&node, &format!("{}/a:1", registry.host()), ErrorClass::FailedPrecondition, &words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_bytes_than_promised_are_not_taken() {
    let (registry, node) = (Registry::start().await, Node::new());
    let pushed = Image::new(vec![Tar::new().file("f", "x").end()]).push(&registry, "a", "1");
    let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
    let more = [registry.content(&path).to_vec(), vec![0; 5000]].concat();
    registry.put(&path, "x", more);
    refused(&node, &format!("{}/a:1", registry.host()), ErrorClass::DataLoss, &["more bytes than"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_always_breaks_ends_in_an_error() {
    let (registry, node) = (Registry::start().await, Node::new());
    let pushed = Image::new(vec![Tar::new().file("f", "x").end()]).push(&registry, "a", "1");
    let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
    let blob = registry.content(&path);
    registry.quirk(move |seen, _| (seen.path == path).then(|| Answer::new(200, blob.clone()).cut(0)));
    let name = format!("{}/a:1", registry.host());
    refused(&node, &name, ErrorClass::Unavailable, &["layer sha256:"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_up_pull_leaves_nothing() {
    let (registry, node) = (Registry::start().await, Node::new());
    let pushed = Image::new(vec![Tar::new().file("f", "x").end()]).push(&registry, "a", "1");
    let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
    registry.quirk(move |seen, _| {
        (seen.path == path).then(|| Answer::new(503, "busy").header("retry-after", "20"))
    });
    let request = PullRequest::new(Reference::parse(&format!("{}/a:1", registry.host())).unwrap());
    let cancel = request.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cancel.cancel();
    });
    let error = node.puller.pull(request).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Cancelled);
    for _ in 0..100 {
        if std::fs::read_dir(node.dir.path().join("staging")).unwrap().count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_is_told_and_costs_one_pull() {
    let registry = Registry::start().await;
    Image::new(vec![Tar::new().file("f", "x").end()]).push(&registry, "a", "1");
    let node = Node::with(|options| {
        options.worker.program = "/bin/sh".into();
        options.worker.args = vec!["-c".into(), "echo oh no >&2; kill -9 $$".into()];
    });
    let name = format!("{}/a:1", registry.host());
    refused(&node, &name, ErrorClass::Internal, &["signal: 9", "oh no"]).await;
}

/// A connection that breaks after a few bytes each time makes progress, and would never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_gives_a_few_bytes_at_a_time_is_given_up() {
    let (registry, node) = (Registry::start().await, Node::new());
    let noise: Vec<u8> = (0..5000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let image = Image::new(vec![Tar::new().with(Head::new("f", b'0'), &noise).end()]);
    let pushed = image.push(&registry, "a", "1");
    let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
    let blob = registry.content(&path);
    registry.quirk(move |seen, _| {
        let range = seen.header("range").and_then(|range| range.strip_prefix("bytes="));
        let from = range.and_then(|range| range.split('-').next()?.parse().ok()).unwrap_or(0);
        let status = if from == 0 { 200 } else { 206 };
        let part = format!("bytes {from}-{}/{}", blob.len() - 1, blob.len());
        let answer = Answer::new(status, blob.slice(from..)).header("content-range", &part);
        (seen.path == path).then(|| answer.cut(10))
    });
    let name = format!("{}/a:1", registry.host());
    refused(&node, &name, ErrorClass::Unavailable, &["layer sha256:"]).await;
    assert!(registry.count(&pushed.layers[0].to_string()) < 10);
}
