//! Registries that are odd but right: each of these must work.

use crate::image::Image;
use crate::node::Node;
use crate::registry::{Answer, Registry};
use crate::tar::{Head, Tar};
use berth_snapshot::digest::Algorithm;

fn image() -> Image {
    let noise: Vec<u8> = (0..200_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    Image::new(vec![Tar::new().with(Head::new("noise", b'0'), &noise).end()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_request_of_anything_has_no_range() {
    let (registry, node) = (Registry::start().await, Node::new());
    image().push(&registry, "a", "1");
    registry.quirk(|seen, _| seen.header("range").map(|_| Answer::new(400, "no ranges")));
    node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    assert!(registry.log().iter().all(|seen| seen.header("range").is_none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_body_is_continued_where_it_broke() {
    let (registry, node) = (Registry::start().await, Node::new());
    let pushed = image().push(&registry, "a", "1");
    let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
    let blob = registry.content(&path);
    let (cut, whole) = (path.clone(), blob.clone());
    registry.quirk(move |seen, before| {
        (seen.path == cut && before == 0).then(|| Answer::new(200, whole.clone()).cut(300_000))
    });
    node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    let asked: Vec<_> = registry.log().into_iter().filter(|seen| seen.path == path).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].header("range"), Some(format!("bytes=300000-{}", blob.len() - 1).as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continuation_works_without_ranges_too() {
    // 200 with everything, 400, and 416: three ways of not doing ranges.
    for status in [200, 400, 416] {
        let (registry, node) = (Registry::start().await, Node::new());
        let pushed = image().push(&registry, "a", "1");
        let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
        let blob = registry.content(&path);
        registry.quirk(move |seen, before| match before {
            _ if seen.path != path => None,
            0 => Some(Answer::new(200, blob.clone()).cut(100_000)),
            _ if seen.header("range").is_none() || status == 200 => Some(Answer::new(200, blob.clone())),
            _ => Some(Answer::new(status, "no ranges")),
        });
        let pulled = node.pull(&format!("{}/a:1", registry.host())).await;
        assert!(pulled.is_ok(), "{status}: {}", crate::node::text(&pulled.unwrap_err()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_with_parameters_and_answers_without_length_or_digest_are_fine() {
    let (registry, node) = (Registry::start().await, Node::new());
    let pushed = image().push(&registry, "a", "1");
    let manifest = registry.content("/v2/a/manifests/1");
    registry.quirk(move |seen, _| {
        let body = seen.path.contains("/manifests/").then(|| manifest.clone())?;
        let kind = "application/vnd.oci.image.manifest.v1+json; charset=utf-8";
        Some(Answer { chunked: true, ..Answer::new(200, body).header("content-type", kind) })
    });
    let image = node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    assert!(image.repo_digest.ends_with(&pushed.manifest.to_string()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sha512_content_is_pulled_and_checked() {
    let (registry, node) = (Registry::start().await, Node::new());
    let mut image = image();
    image.algorithm = Algorithm::Sha512;
    let pushed = image.push(&registry, "a", "1");
    let by_digest = format!("{}/a@{}", registry.host(), pushed.manifest);
    let pulled = node.pull(&by_digest).await.unwrap();
    assert_eq!(pulled.id, pushed.config);
    assert_eq!(pulled.repo_tag, None);
    assert!(pulled.layers[0].as_str().starts_with("diff-sha512-"));
    // One bit of the layer wrong, at another node.
    let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
    let mut bad = registry.content(&path).to_vec();
    *bad.last_mut().unwrap() ^= 1;
    registry.put(&path, "application/octet-stream", bad);
    let node = Node::new();
    assert!(node.pull(&by_digest).await.is_err());
    node.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_registries_are_asked_again() {
    let (registry, node) = (Registry::start().await, Node::new());
    image().push(&registry, "a", "1");
    registry.quirk(|_, before| match before {
        0 => Some(Answer::new(503, "busy")),
        1 => Some(Answer::new(429, "slow down").header("retry-after", "0")),
        _ => None,
    });
    node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zstd_plain_and_many_member_layers_are_known_by_their_bytes() {
    let (registry, node) = (Registry::start().await, Node::new());
    let image = image();
    let tar = image.tars[0].clone();
    let pushed = image.push(&registry, "a", "1");
    let (head, tail) = tar.split_at(tar.len() / 2);
    let members = [crate::image::gzip(head), crate::image::gzip(tail)].concat();
    for (at, blob) in [zstd::encode_all(&tar[..], 1).unwrap(), tar.clone(), members].into_iter().enumerate() {
        let (digest, tag) = (crate::image::sha256(&blob), format!("v{at}"));
        let mut manifest: serde_json::Value =
            serde_json::from_slice(&registry.content(&format!("/v2/a/manifests/{}", pushed.manifest)))
                .unwrap();
        manifest["layers"][0]["digest"] = digest.to_string().into();
        manifest["layers"][0]["size"] = blob.len().into();
        registry.put(&format!("/v2/a/blobs/{digest}"), "x/y", blob);
        let manifest = serde_json::to_vec(&manifest).unwrap();
        registry.put(&format!("/v2/a/manifests/{tag}"), crate::image::MANIFEST, manifest);
        let node = Node::new();
        node.pull(&format!("{}/a:{tag}", registry.host())).await.unwrap();
    }
    node.assert_clean();
}
