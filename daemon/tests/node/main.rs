//! A daemon of its own, started as a program, asked over its socket.
//!
//! Needs root, as the daemon does; without it these tests say so and pass.

mod daemon;

use berth_image::{Digest, ImageConfig, ImageIndex, PulledImage};
use berth_proto::cri::*;
use daemon::{Daemon, is_root};
use std::os::unix::fs::PermissionsExt;
use tonic::Code;

#[tokio::test]
async fn a_node_says_what_it_is() {
    let Some(daemon) = Daemon::start("says").await else { return };
    let mut runtime = daemon.runtime().await;
    let version = runtime.version(VersionRequest::default()).await.expect("Version").into_inner();
    assert_eq!((version.version.as_str(), version.runtime_name.as_str()), ("0.1.0", "berth"));
    assert_eq!(version.runtime_api_version, "v1");

    let status = runtime.status(StatusRequest { verbose: true }).await.expect("Status").into_inner();
    let conditions = status.status.expect("status").conditions;
    let names: Vec<&str> = conditions.iter().map(|condition| condition.r#type.as_str()).collect();
    assert_eq!(names, ["RuntimeReady", "NetworkReady", "SharesHostMounts", "StoreWritable"]);
    assert!(conditions[0].status && conditions[3].status, "{conditions:?}");
    let handlers: Vec<&str> = status.runtime_handlers.iter().map(|handler| handler.name.as_str()).collect();
    assert_eq!(handlers, ["", "berth"]);
    for text in status.info.values() {
        serde_json::from_str::<serde_json::Value>(text).expect("info is JSON");
    }

    let config = runtime.runtime_config(RuntimeConfigRequest {}).await.expect("RuntimeConfig").into_inner();
    assert_eq!(config.linux.expect("linux").cgroup_driver(), CgroupDriver::Cgroupfs);
}

#[tokio::test]
async fn the_kubelets_pod_range_is_kept_and_a_wrong_one_refused() {
    let Some(daemon) = Daemon::start("cidr").await else { return };
    let mut runtime = daemon.runtime().await;
    let request = |cidr: &str| UpdateRuntimeConfigRequest {
        runtime_config: Some(RuntimeConfig {
            network_config: Some(NetworkConfig { pod_cidr: cidr.to_owned() }),
        }),
    };
    runtime.update_runtime_config(request("10.1.0.0/24,fd00::/64")).await.expect("kept");
    runtime.update_runtime_config(UpdateRuntimeConfigRequest::default()).await.expect("nothing told");
    let refused = runtime.update_runtime_config(request("10.1.0.0")).await.expect_err("no subnet");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let info = runtime.status(StatusRequest { verbose: true }).await.expect("Status").into_inner().info;
    assert!(info["berth"].contains("10.1.0.0/24,fd00::/64"), "{info:?}");
}

#[tokio::test]
async fn status_is_the_same_every_time_and_after_a_restart() {
    let Some(mut daemon) = Daemon::start("same").await else { return };
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..2 {
        let mut runtime = daemon.runtime().await;
        for _ in 0..100 {
            let status = runtime.status(StatusRequest::default()).await.expect("Status").into_inner();
            seen.insert(format!("{status:?}"));
        }
        if round == 0 {
            daemon.kill().await;
            daemon.again().await;
        }
    }
    assert_eq!(seen.len(), 1, "{seen:#?}");
}

#[tokio::test]
async fn an_empty_node_has_no_images_and_removing_one_succeeds() {
    let Some(daemon) = Daemon::start("empty").await else { return };
    let mut images = daemon.images().await;
    assert!(
        images.list_images(ListImagesRequest::default()).await.expect("list").into_inner().images.is_empty()
    );
    let status = ImageStatusRequest { image: spec("docker.io/library/x:1"), verbose: true };
    let status = images.image_status(status).await.expect("ImageStatus").into_inner();
    assert!(status.image.is_none() && status.info.is_empty());
    images.remove_image(RemoveImageRequest { image: spec("x:1") }).await.expect("idempotent");
    let info = images.image_fs_info(ImageFsInfoRequest {}).await.expect("ImageFsInfo").into_inner();
    for usage in info.image_filesystems.iter().chain(&info.container_filesystems) {
        assert!(usage.timestamp > 0 && usage.used_bytes.is_some());
        assert_eq!(usage.fs_id.as_ref().expect("fs_id").mountpoint, daemon.root().to_string_lossy());
    }
    assert_eq!((info.image_filesystems.len(), info.container_filesystems.len()), (1, 1));
}

const TAG: &str = "docker.io/library/x:1";
const DIGEST: &str =
    "docker.io/library/x@sha256:1111111111111111111111111111111111111111111111111111111111111111";
const ID: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

fn put_image(root: &std::path::Path) {
    let image = PulledImage {
        id: Digest::parse(ID).expect("id"),
        repo_tag: Some(TAG.to_owned()),
        repo_digest: DIGEST.to_owned(),
        config: ImageConfig { user: "www-data:staff".to_owned(), ..ImageConfig::default() },
        layers: Vec::new(),
        size: 42,
    };
    berth_store::Store::open(root).expect("store").commit_image(&image).expect("commit");
}

fn spec(image: &str) -> Option<ImageSpec> {
    Some(ImageSpec { image: image.to_owned(), ..ImageSpec::default() })
}

#[tokio::test]
async fn an_image_answers_to_all_its_names_and_goes_with_all_of_them() {
    let Some(daemon) = Daemon::prepared("names", put_image).await else { return };
    let mut images = daemon.images().await;
    for name in [TAG, "x:1", DIGEST, ID, &ID["sha256:".len()..]] {
        let request = ImageStatusRequest { image: spec(name), verbose: true };
        let answer = images.image_status(request).await.expect("ImageStatus").into_inner();
        let image = answer.image.unwrap_or_else(|| panic!("{name} is not found"));
        assert_eq!((image.id.as_str(), image.username.as_str(), image.uid), (ID, "www-data", None));
        assert_eq!((image.repo_tags, image.repo_digests), (vec![TAG.to_owned()], vec![DIGEST.to_owned()]));
        assert!(answer.info["info"].contains("www-data:staff"));
        let filter = Some(ImageFilter { image: spec(name) });
        let listed =
            images.list_images(ListImagesRequest { filter }).await.expect("ListImages").into_inner().images;
        assert_eq!(listed.len(), 1, "{name}");
    }
    // Everybody removes at once, by every name: nobody fails, and it is gone at once.
    let removals = (0..20).map(|n| {
        let mut images = images.clone();
        let name = [TAG, DIGEST, ID, "x:1"][n % 4];
        async move { images.remove_image(RemoveImageRequest { image: spec(name) }).await }
    });
    for done in futures_util::future::join_all(removals).await {
        done.expect("idempotent");
    }
    assert!(
        images.list_images(ListImagesRequest::default()).await.expect("list").into_inner().images.is_empty()
    );
}

#[tokio::test]
async fn nil_fields_are_refused_by_name_and_cost_nothing() {
    let Some(daemon) = Daemon::start("nil").await else { return };
    let mut images = daemon.images().await;
    let refused = [
        images.image_status(ImageStatusRequest::default()).await.expect_err("ImageStatus"),
        images.pull_image(PullImageRequest::default()).await.expect_err("PullImage"),
        images.remove_image(RemoveImageRequest::default()).await.expect_err("RemoveImage"),
        images
            .pull_image(PullImageRequest { image: Some(ImageSpec::default()), ..PullImageRequest::default() })
            .await
            .expect_err("an empty name"),
    ];
    for status in refused {
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains("image"), "{status:?}");
    }
    let bad = ImageSpec { image: "Not A Reference".to_owned(), ..ImageSpec::default() };
    let status =
        images.pull_image(PullImageRequest { image: Some(bad), ..PullImageRequest::default() }).await;
    assert_eq!(status.expect_err("bad reference").code(), Code::InvalidArgument);
}

#[tokio::test]
async fn nil_fields_of_pods_and_containers_are_refused_by_name() {
    let Some(daemon) = Daemon::start("nilpod").await else { return };
    let mut runtime = daemon.runtime().await;
    let metadata = |uid: &str| {
        Some(PodSandboxMetadata { name: "p".into(), uid: uid.into(), namespace: "n".into(), attempt: 0 })
    };
    let config = |metadata| Some(PodSandboxConfig { metadata, ..PodSandboxConfig::default() });
    for (config, field) in [(None, "config"), (config(None), "metadata"), (config(metadata("")), "uid")] {
        let request = RunPodSandboxRequest { config, ..RunPodSandboxRequest::default() };
        let status = runtime.run_pod_sandbox(request).await.expect_err(field);
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(field), "{status:?}");
    }
    let container = |metadata, image| Some(ContainerConfig { metadata, image, ..ContainerConfig::default() });
    let named = Some(ContainerMetadata { name: "c".into(), attempt: 0 });
    for (config, field) in
        [(None, "config"), (container(None, None), "metadata"), (container(named, None), "image")]
    {
        let request = CreateContainerRequest { config, ..CreateContainerRequest::default() };
        let status = runtime.create_container(request).await.expect_err(field);
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(field), "{status:?}");
    }
    runtime.version(VersionRequest::default()).await.expect("the daemon lives");
}

#[tokio::test]
async fn unknown_ids_are_not_found_or_a_success_as_cri_wants() {
    let Some(daemon) = Daemon::start("unknown").await else { return };
    let mut runtime = daemon.runtime().await;
    let id = "0".repeat(64);
    let pod = PodSandboxStatusRequest { pod_sandbox_id: id.clone(), verbose: false };
    assert_eq!(runtime.pod_sandbox_status(pod).await.expect_err("none").code(), Code::NotFound);
    let container = ContainerStatusRequest { container_id: id.clone(), verbose: false };
    assert_eq!(runtime.container_status(container).await.expect_err("none").code(), Code::NotFound);
    let start = StartContainerRequest { container_id: id.clone() };
    assert_eq!(runtime.start_container(start).await.expect_err("none").code(), Code::NotFound);
    runtime.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: id.clone() }).await.expect("stop");
    runtime.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id: id.clone() }).await.expect("remove");
    runtime
        .stop_container(StopContainerRequest { container_id: id.clone(), timeout: 1 })
        .await
        .expect("stop");
    runtime.remove_container(RemoveContainerRequest { container_id: id }).await.expect("remove");
    assert!(
        runtime
            .list_pod_sandbox(ListPodSandboxRequest::default())
            .await
            .expect("list")
            .into_inner()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn calls_that_are_not_built_say_their_name() {
    let Some(daemon) = Daemon::start("gone").await else { return };
    let mut runtime = daemon.runtime().await;
    let status = runtime.checkpoint_pod(CheckpointPodRequest::default()).await.expect_err("CheckpointPod");
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("CheckpointPod"), "{status:?}");
    let status = runtime.get_container_events(GetEventsRequest {}).await.expect_err("GetContainerEvents");
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("GetContainerEvents"), "{status:?}");
    let mut images = daemon.images().await;
    let status = images.stream_images(StreamImagesRequest::default()).await.expect_err("StreamImages");
    assert!(status.code() == Code::Unimplemented && status.message().contains("StreamImages"));
}

#[tokio::test]
async fn modes_hold_under_any_umask() {
    let Some(daemon) = Daemon::start("modes").await else { return };
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).expect("metadata").permissions().mode() & 0o7777;
    assert_eq!(mode(daemon.root()), 0o700);
    assert_eq!(mode(&daemon.root().join("store.redb")), 0o600);
    assert_eq!(mode(daemon.state()), 0o711);
    assert_eq!(mode(&daemon.state().join("s")), 0o700);
    assert_eq!(mode(&daemon.state().join("p")), 0o711);
    assert_eq!(mode(&daemon.socket()), 0o660);
}

#[tokio::test]
async fn a_store_that_cannot_be_written_does_not_keep_the_node_down() {
    let Some(mut daemon) = Daemon::prepared("full", put_image).await else { return };
    daemon.kill().await;
    daemon.fail_at("store.commit=fail");
    daemon.again().await;
    let status = ImageStatusRequest { image: spec(TAG), verbose: false };
    let answer = daemon.images().await.image_status(status).await.expect("reads go on").into_inner();
    assert_eq!(answer.image.expect("the image").id, ID);
    let mut runtime = daemon.runtime().await;
    let stop = StopPodSandboxRequest { pod_sandbox_id: "0".repeat(64) };
    runtime.stop_pod_sandbox(stop).await.expect("stops go on");
    assert_eq!(daemon.terminate().await.0, Some(0), "and it ends in order");
}

#[tokio::test]
async fn a_second_daemon_is_told_who_is_there() {
    let Some(daemon) = Daemon::start("second").await else { return };
    let text = daemon.second(daemon.root(), &daemon.state().with_extension("other")).await;
    assert!(text.contains(&format!("pid {}", daemon.pid())), "{text}");
    let text = daemon.second(&daemon.root().with_extension("other"), daemon.state()).await;
    assert!(text.contains(&format!("pid {}", daemon.pid())), "{text}");
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_sigterm_ends_well() {
    let Some(mut daemon) = Daemon::start("stale").await else { return };
    daemon.kill().await;
    assert!(daemon.socket().exists(), "a killed daemon leaves its socket");
    daemon.again().await;
    daemon.runtime().await.version(VersionRequest::default()).await.expect("Version");
    let (code, log) = daemon.terminate().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(!daemon.socket().exists());
    assert!(log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{log}");
}

/// A pull that waits for a registry which has accepted and says nothing yet.
async fn pull_in_flight(
    daemon: &Daemon,
) -> (tokio::net::TcpStream, tokio::task::JoinHandle<Result<tonic::Response<PullImageResponse>, tonic::Status>>)
{
    let registry = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let name = format!("127.0.0.1:{}/x:1", registry.local_addr().expect("address").port());
    let mut images = daemon.images().await;
    let request = PullImageRequest { image: spec(&name), ..PullImageRequest::default() };
    let pull = tokio::spawn(async move { images.pull_image(request).await });
    let (connection, _) = registry.accept().await.expect("the daemon asks");
    (connection, pull)
}

#[tokio::test]
async fn a_call_in_flight_ends_before_the_daemon_does() {
    use tokio::io::AsyncWriteExt;
    let Some(mut daemon) = Daemon::start("drain").await else { return };
    let (mut registry, pull) = pull_in_flight(&daemon).await;
    daemon.tell();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    registry.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await.expect("answer");
    let status = pull.await.expect("task").expect_err("the image is not there");
    assert_eq!(status.code(), Code::NotFound, "the verb's own answer: {status:?}");
    assert_eq!(daemon.terminate().await.0, Some(0));
}

#[tokio::test]
async fn a_call_that_does_not_end_is_dropped_when_its_time_is_over() {
    let Some(mut daemon) = Daemon::start("overdue").await else { return };
    let (_registry, pull) = pull_in_flight(&daemon).await;
    let begun = std::time::Instant::now();
    assert_eq!(daemon.terminate().await.0, Some(0));
    let took = begun.elapsed().as_secs_f64();
    assert!((1.5..8.0).contains(&took), "the drain of 2 s took {took} s");
    pull.await.expect("task").expect_err("the daemon is gone");
}

#[test]
fn the_inventory_and_the_template_are_printed() {
    let run = |words: &[&str]| {
        let done =
            std::process::Command::new(env!("CARGO_BIN_EXE_berthd")).args(words).output().expect("run");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).expect("text")
    };
    assert!(run(&["config", "default"]).contains("# masquerade = true"));
    assert!(run(&["faults"]).contains("store.commit\t"));
    assert!(run(&["version"]).starts_with("berthd "));
}

#[test]
fn a_mistyped_key_stops_the_start_with_its_line() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "[netwrok]\nmode = \"cni\"\n").expect("write");
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_berthd"))
        .arg("--config")
        .arg(&file)
        .output()
        .expect("run");
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && text.contains("c.toml:1: unknown key `netwrok`"), "{text}");
}

#[test]
fn without_root_it_says_what_it_needs() {
    if !is_root() {
        return;
    }
    use std::os::unix::process::CommandExt;
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_berthd")).uid(65534).gid(65534).output();
    // The build directory may be closed to others; then the program cannot even be started.
    let Ok(done) = done else { return };
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && text.contains("must be root"), "{text}");
}
