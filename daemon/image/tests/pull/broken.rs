//! Downloads that break off, workers that are killed, disks that are full: each pull ends, leaves nothing, and the next
//! one succeeds.

use crate::image::{Image, Pushed};
use crate::node::{Node, noting_workers, text, workers};
use crate::registry::{Answer, Registry};
use crate::tar::{Head, Tar};
use berth_core::{Classified, ErrorClass};
use berth_image::{ImageIndex, PullRequest, Reference, Spool};
use std::time::{Duration, Instant};

/// Does not compress, so that half a blob is about half a layer.
fn noise(bytes: u32) -> Vec<u8> {
    (0..bytes / 4).flat_map(|n| n.wrapping_mul(2_654_435_761).rotate_left(n % 31).to_le_bytes()).collect()
}

fn image() -> Image {
    Image::new(vec![Tar::new().with(Head::new("noise", b'0'), &noise(3 << 20)).end()])
}

async fn pushed() -> (Registry, Pushed, String) {
    let registry = Registry::start().await;
    let pushed = image().push(&registry, "a", "1");
    let name = format!("{}/a:1", registry.host());
    (registry, pushed, name)
}

fn blob_path(pushed: &Pushed, layer: usize) -> String {
    format!("/v2/a/blobs/{}", pushed.layers[layer])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_breaks_off_ends_the_pull_and_its_worker_whatever_way_the_bytes_take() {
    for spool in [Spool::Always, Spool::Never] {
        let (registry, pushed, name) = pushed().await;
        let (path, dir) = (blob_path(&pushed, 0), tempfile::tempdir().unwrap());
        let (blob, pids) = (registry.content(&path), dir.path().join("pids"));
        let at = path.clone();
        registry.quirk(move |seen, before| match before {
            _ if seen.path != at => None,
            0 => Some(Answer::new(200, blob.clone()).cut(1_500_000)),
            _ => Some(Answer::new(404, "gone")),
        });
        let node = Node::with(|options| {
            options.spool = spool;
            noting_workers(options, &pids);
        });
        let pull = tokio::time::timeout(Duration::from_secs(60), node.pull(&name)).await;
        let error = pull.unwrap_or_else(|_| panic!("{spool:?}: the pull hangs")).unwrap_err();
        assert_eq!(error.class(), ErrorClass::NotFound, "{}", text(&error));
        node.assert_clean();
        assert!(workers(&pids).is_empty(), "{spool:?}");
        assert!(pids.exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_given_up_in_the_middle_of_a_layer_takes_its_worker_along() {
    for spool in [Spool::Always, Spool::Never] {
        let (registry, pushed, name) = pushed().await;
        let (path, dir) = (blob_path(&pushed, 0), tempfile::tempdir().unwrap());
        let (blob, pids) = (registry.content(&path), dir.path().join("pids"));
        registry.quirk(move |seen, _| {
            (seen.path == path).then(|| Answer::new(200, blob.clone()).stall(1_500_000))
        });
        let node = Node::with(|options| {
            options.spool = spool;
            noting_workers(options, &pids);
        });
        let request = PullRequest::new(Reference::parse(&name).unwrap());
        let (cancel, puller) = (request.cancel.clone(), node.puller.clone());
        let pull = tokio::spawn(async move { puller.pull(request).await });
        while workers(&pids).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
        assert_eq!(pull.await.unwrap().unwrap_err().class(), ErrorClass::Cancelled);
        node.becomes_clean().await;
        assert!(workers(&pids).is_empty(), "{spool:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_in_the_middle_costs_one_pull() {
    let (registry, pushed, name) = pushed().await;
    let (path, dir) = (blob_path(&pushed, 0), tempfile::tempdir().unwrap());
    let (blob, pids) = (registry.content(&path), dir.path().join("pids"));
    registry.quirk(move |seen, before| {
        (seen.path == path && before == 0).then(|| Answer::new(200, blob.clone()).stall(1_500_000))
    });
    let node = Node::with(|options| noting_workers(options, &pids));
    let (puller, reference) = (node.puller.clone(), Reference::parse(&name).unwrap());
    let pull = tokio::spawn(async move { puller.pull(PullRequest::new(reference)).await });
    let staged = |name: &str| {
        let all = std::fs::read_dir(node.dir.path().join("staging")).unwrap();
        all.flatten().any(|entry| entry.path().join("fs").join(name).exists())
    };
    while !staged("noise") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for pid in workers(&pids) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    // The registry says nothing for a while, and so the fetch does not notice: the worker's end must end it.
    let ended = tokio::time::timeout(Duration::from_secs(20), pull).await;
    let error = ended.expect("the pull noticed that its worker is gone").unwrap().unwrap_err();
    assert!(text(&error).contains("signal: 9"), "{}", text(&error));
    node.assert_clean();
    let image = node.pull(&name).await.unwrap();
    assert!(
        std::fs::read(node.snapshots.layer_path(&image.layers[0]).join("noise")).unwrap() == noise(3 << 20)
    );
    node.assert_clean();
}

/// On a file system of its own, of so many bytes, in a mount namespace of its own: it is gone with the thread.
fn on_small_disk(bytes: u64, test: impl AsyncFnOnce(tempfile::TempDir) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        berth_sys::namespace::unshare(berth_sys::namespace::Namespaces::MOUNT).unwrap();
        let private =
            rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        let none = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", dir.path(), "tmpfs", none, Some(size.as_c_str())).unwrap();
        // One thread for all, since others would have the namespace of this program.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let path = dir.path().to_owned();
        runtime.block_on(test(dir));
        drop(runtime);
        let _ = rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH);
        let _ = std::fs::remove_dir(&path);
    });
    thread.join().unwrap();
}

#[test]
fn a_full_disk_is_told_as_such_and_the_next_pull_succeeds() {
    on_small_disk(16 << 20, async |dir| {
        for spool in [Spool::Never, Spool::Always] {
            let (_registry, _, name) = pushed().await;
            let root = tempfile::tempdir_in(dir.path()).unwrap();
            let filler = dir.path().join("filler");
            std::fs::write(&filler, vec![1u8; 14 << 20]).unwrap();
            let node = Node::at(root, |options| options.spool = spool);
            let error = node.pull(&name).await.unwrap_err();
            assert_eq!(error.class(), ErrorClass::ResourceExhausted, "{spool:?}: {}", text(&error));
            node.assert_clean();
            std::fs::remove_file(&filler).unwrap();
            node.pull(&name).await.unwrap();
            node.assert_clean();
        }
    });
}

#[test]
fn pulls_need_none_of_the_runtimes_blocking_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    // A dead mount, as it were.
    let (release, held) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || held.recv());
    runtime.block_on(async {
        let registry = Registry::start().await;
        let node = Node::with(|options| {
            options.spool = Spool::Always;
            options.max_workers = 2;
            options.max_parallel_layers = 2;
        });
        let pulls = (0..6).map(|at| {
            let tar = |layer: u32| {
                Tar::new().with(Head::new(&format!("f{at}-{layer}"), b'0'), &noise(400_000 + at)).end()
            };
            Image::new((0..4).map(tar).collect()).push(&registry, &format!("i{at}"), "1");
            let (puller, name) = (node.puller.clone(), format!("{}/i{at}:1", registry.host()));
            tokio::spawn(async move { puller.pull(PullRequest::new(Reference::parse(&name).unwrap())).await })
        });
        let pulls: Vec<_> = pulls.collect();
        for pull in pulls {
            let ended = tokio::time::timeout(Duration::from_secs(120), pull).await;
            ended.expect("no pull waits for ever").unwrap().unwrap();
        }
    });
    drop(release);
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_images_at_once_on_the_same_layers_make_them_once() {
    let registry = Registry::start().await;
    let base = Tar::new().dir("d").file("d/f", "1").file("old", "x").end();
    // Needs what is below, and so is finished against it.
    let top = Tar::new().head(&Head::new(".wh.old", b'0')).hardlink("link", "d/f").end();
    let image = |last: &str| Image::new(vec![base.clone(), top.clone(), Tar::new().file(last, last).end()]);
    let one = image("one").push(&registry, "a", "1");
    image("two").push(&registry, "b", "1");
    for _ in 0..5 {
        let node = Node::new();
        let before = registry.count(&one.layers[1].to_string());
        let name = |image: &str| format!("{}/{image}:1", registry.host());
        let (a, b) = (name("a"), name("b"));
        let (a, b) = tokio::join!(node.pull(&a), node.pull(&b));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.layers[..2], b.layers[..2]);
        assert_ne!(a.layers[2], b.layers[2]);
        assert_eq!(node.read(&a, 1, "link"), "1");
        assert_eq!(
            registry.count(&one.layers[1].to_string()) - before,
            1,
            "the shared layer was fetched once"
        );
        assert_eq!(node.snapshots.layers().unwrap().len(), 4);
        node.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_names_a_layer_twice_gets_a_plan_without_repeats() {
    let (registry, node) = (Registry::start().await, Node::new());
    let empty = Tar::new().end();
    let full = Tar::new().file("f", "1").end();
    let tars = vec![full.clone(), empty.clone(), Tar::new().file("g", "2").end(), empty, full];
    Image::new(tars).push(&registry, "a", "1");
    let image = node.pull(&format!("{}/a:1", registry.host())).await.unwrap();
    assert_eq!(image.layers.len(), 5);
    let plan = node.snapshots.container_create("c1", &image.layers).unwrap();
    assert_eq!(plan.lower.len(), 3);
    assert!(plan.lower[0].join("f").exists() && plan.lower[2].join("g").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_failed_pull_finished_stays_for_the_next_try_but_not_for_ever() {
    let registry = Registry::start().await;
    let tars = vec![Tar::new().file("f", "1").end(), Tar::new().file("g", "2").end()];
    let pushed = Image::new(tars).push(&registry, "a", "1");
    let path = blob_path(&pushed, 1);
    registry.quirk(move |seen, _| (seen.path == path).then(|| Answer::new(404, "gone")));
    let node = Node::with(|options| {
        options.keep_failed = Duration::from_secs(3);
        options.max_parallel_layers = 1;
    });
    let name = format!("{}/a:1", registry.host());
    let begun = Instant::now();
    node.pull(&name).await.unwrap_err();
    let kept = node.snapshots.layers().unwrap();
    node.puller.collect_garbage().unwrap();
    assert!(node.snapshots.layers().unwrap() == kept || begun.elapsed() > Duration::from_secs(3));
    while !node.snapshots.layers().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the layers stay for ever");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layers_go_in_a_moment_after_their_last_container() {
    let (_registry, _, name) = pushed().await;
    let node = Node::new();
    let image = node.pull(&name).await.unwrap();
    node.snapshots.container_create("c1", &image.layers).unwrap();
    assert!(node.index.remove_image(&image.id).unwrap());
    assert!(!node.snapshots.layers().unwrap().is_empty());
    node.snapshots.container_remove("c1").unwrap();
    for _ in 0..200 {
        if node.snapshots.layers().unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the layer stays for ever");
}
