//! Mirrors: order, fall-back, names.

use crate::image::Image;
use crate::node::{Node, text};
use crate::registry::{Answer, Registry};
use crate::tar::{Head, Tar};
use berth_core::{Classified, ErrorClass};

fn image() -> Image {
    let noise: Vec<u8> = (0..200_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    Image::new(vec![Tar::new().with(Head::new("noise", b'0'), &noise).end()])
}

fn hosts(node: &Node, mirrors: &[&Registry], server: &Registry) {
    let mut text = format!("server = \"http://{}\"\n", server.host());
    for mirror in mirrors {
        text.push_str(&format!("[host.\"http://{}\"]\n", mirror.host()));
    }
    node.hosts("origin.invalid", &text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mirror_is_asked_first_and_the_image_keeps_the_origins_name() {
    let (mirror, origin, node) = (Registry::start().await, Registry::start().await, Node::new());
    let pushed = image().push(&mirror, "team/a", "1");
    hosts(&node, &[&mirror], &origin);
    let image = node.pull("origin.invalid/team/a:1").await.unwrap();
    assert_eq!(image.repo_tag.as_deref(), Some("origin.invalid/team/a:1"));
    assert_eq!(image.repo_digest, format!("origin.invalid/team/a@{}", pushed.manifest));
    assert!(origin.log().is_empty());
    assert!(mirror.log().iter().all(|seen| seen.query == "ns=origin.invalid"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_mirror_lacks_or_breaks_comes_from_the_next() {
    let (empty, broken, origin, node) =
        (Registry::start().await, Registry::start().await, Registry::start().await, Node::new());
    image().push(&origin, "a", "1");
    broken.quirk(|_, _| Some(Answer::new(500, "oops")));
    hosts(&node, &[&empty, &broken], &origin);
    node.pull("origin.invalid/a:1").await.unwrap();
    assert!(!empty.log().is_empty() && !broken.log().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_goes_on_at_the_next_mirror_where_the_last_one_broke() {
    let (mirror, origin, node) = (Registry::start().await, Registry::start().await, Node::new());
    let pushed = image().push(&mirror, "a", "1");
    image().push(&origin, "a", "1");
    let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
    let blob = mirror.content(&path);
    let at = path.clone();
    mirror.quirk(move |seen, before| match before {
        _ if seen.path != at => None,
        0 => Some(Answer::new(200, blob.clone()).cut(250_000)),
        _ => Some(Answer::new(404, "gone")),
    });
    hosts(&node, &[&mirror], &origin);
    node.pull("origin.invalid/a:1").await.unwrap();
    let asked: Vec<_> = origin.log().into_iter().filter(|seen| seen.path == path).collect();
    assert!(asked[0].header("range").is_some_and(|range| range.starts_with("bytes=250000-")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_lists_every_endpoint_with_its_reason() {
    let (mirror, origin, node) = (Registry::start().await, Registry::start().await, Node::new());
    mirror.quirk(|_, _| Some(Answer::new(403, "mirror says no")));
    hosts(&node, &[&mirror], &origin);
    let error = node.pull("origin.invalid/a:1").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::NotFound);
    let text = text(&error);
    for word in [mirror.host(), "mirror says no".into(), origin.host(), "manifest unknown".into()] {
        assert!(text.contains(&word), "{word} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capabilities_and_the_file_itself_are_read_at_each_pull() {
    let (mirror, origin, node) = (Registry::start().await, Registry::start().await, Node::new());
    image().push(&mirror, "a", "1");
    image().push(&origin, "a", "1");
    let text = format!(
        "server = \"http://{}\"\n[host.\"http://{}\"]\ncapabilities = [\"pull\"]\n",
        origin.host(),
        mirror.host()
    );
    node.hosts("origin.invalid", &text);
    node.pull("origin.invalid/a:1").await.unwrap();
    assert_eq!((mirror.count("/manifests/"), origin.count("/manifests/")), (0, 1));
    assert_eq!((mirror.count("/blobs/"), origin.count("/blobs/")), (2, 0));
    node.hosts("origin.invalid", "server = 7");
    let error = node.pull("origin.invalid/a:1").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::FailedPrecondition);
    assert!(crate::node::text(&error).contains("hosts.toml"));
}

/// Whether the worker meets the damage first (in the middle) or the digest at the end does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_that_a_mirror_has_damaged_comes_from_the_next() {
    let damages: [fn(&mut Vec<u8>); 4] = [
        |blob| blob[300] ^= 0xff,
        |blob| *blob.last_mut().unwrap() ^= 1,
        |blob| blob.extend([0; 5000]),
        |blob| {
            let half = blob.len() / 2;
            blob[half..].fill(0);
        },
    ];
    for (at, damage) in damages.into_iter().enumerate() {
        for spool in [berth_image::Spool::Never, berth_image::Spool::Always] {
            let (mirror, origin) = (Registry::start().await, Registry::start().await);
            let node = Node::with(|options| options.spool = spool);
            let pushed = image().push(&mirror, "a", "1");
            image().push(&origin, "a", "1");
            let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
            let mut blob = mirror.content(&path).to_vec();
            damage(&mut blob);
            mirror.put(&path, "x", blob);
            hosts(&node, &[&mirror], &origin);
            let pulled = node.pull("origin.invalid/a:1").await;
            pulled.unwrap_or_else(|error| panic!("damage {at}, {spool:?}: {}", text(&error)));
            assert_eq!(origin.count(&pushed.layers[0].to_string()), 1);
            node.assert_clean();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_that_is_damaged_everywhere_is_asked_for_once_everywhere() {
    let (mirror, origin, node) = (Registry::start().await, Registry::start().await, Node::new());
    let pushed = image().push(&mirror, "a", "1");
    image().push(&origin, "a", "1");
    let path = format!("/v2/a/blobs/{}", pushed.layers[0]);
    for registry in [&mirror, &origin] {
        let mut blob = registry.content(&path).to_vec();
        *blob.last_mut().unwrap() ^= 1;
        registry.put(&path, "x", blob);
    }
    hosts(&node, &[&mirror], &origin);
    let error = node.pull("origin.invalid/a:1").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::DataLoss, "{}", text(&error));
    let layer = pushed.layers[0].to_string();
    assert_eq!((mirror.count(&layer), origin.count(&layer)), (1, 1));
    node.assert_clean();
}
