//! Requests that must be refused with the right code and words, and leave nothing behind.

use anyhow::Result;
use berth_e2e::harness::{Bed, Context, Pod};
use berth_e2e::image::{ImageBuilder, Layer};
use berth_e2e::{check, podspec, samples, tests};
use berth_proto::cri as wire;
use tonic::{Code, Status};

tests![
    entrypoints_that_cannot_start,
    bad_cgroup_parent,
    missing_metadata,
    unknown_ids,
    unknown_handler,
    unimplemented_calls,
];

/// The error of a call that must fail.
fn failed<T: std::fmt::Debug>(what: &str, answer: Result<T, Status>) -> Result<Status> {
    match answer {
        Ok(value) => anyhow::bail!("{what} was to fail and gave {value:?}"),
        Err(status) => Ok(status),
    }
}

/// An image with programs that cannot be started, each for its own reason.
fn broken_programs() -> Result<berth_e2e::image::Image> {
    let broken = Layer::new()
        .file("not-executable", 0o644, "#!/bin/sh\n")
        .dir("a-directory", 0o755)
        .file("no-interpreter", 0o755, "#!/no/such/interpreter\n")
        .file("no-program", 0o755, "\u{1}\u{2}neither text nor ELF");
    Ok(ImageBuilder::new().layer(samples::busybox_layer()?).layer(broken).build())
}

async fn entrypoints_that_cannot_start(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    bed.registry.push("broken", "1", &broken_programs()?);
    let image = bed.image("broken:1");
    bed.cri().await?.pull(&image).await?;
    let pod = bed.pod("broken").await?;
    let cases = [
        ("/missing", "ENOENT", "no such file"),
        ("not-in-path", "ENOENT", "no such file"),
        ("/not-executable", "EACCES", "permission denied"),
        ("/a-directory", "EACCES", "permission denied"),
        ("/no-interpreter", "ENOENT", "no such file"),
        ("/no-program", "ENOEXEC", "exec format error"),
    ];
    for (at, (program, errno, words)) in cases.into_iter().enumerate() {
        let config = podspec::container(&format!("c{at}"), &image, &[program]);
        cannot_start(&bed, &pod, &config, [program, errno, words]).await?;
    }
    let mut config = podspec::container("cwd", &image, &["true"]);
    config.working_dir = "/etc/passwd/x".to_owned();
    let id = bed.create(&pod, &config).await;
    if let Ok(id) = id {
        let error = failed("a working directory below a file", bed.cri().await?.start(&id).await)?;
        check!(error.message().contains("/etc/passwd/x"), "{error}");
    }
    Ok(())
}

async fn cannot_start(
    bed: &Bed,
    pod: &Pod,
    config: &wire::ContainerConfig,
    [program, errno, words]: [&str; 3],
) -> Result<()> {
    let id = bed.create(pod, config).await?;
    let mut cri = bed.cri().await?;
    let error = failed(program, cri.start(&id).await)?;
    let said = error.message();
    check!(said.contains(program), "{program}: the error does not name it: {said}");
    check!(said.contains(errno) || said.to_lowercase().contains(words), "{program}: no {errno}: {said}");
    let status = cri.container(&id).await?;
    check!(status.state() == wire::ContainerState::ContainerExited, "{program}: {status:?}");
    check!(status.reason == "StartError", "{program}: reason {:?}", status.reason);
    check!(status.exit_code != 0, "{program}: exit code 0");
    check!(status.finished_at >= status.started_at, "{program}: {status:?}");
    cri.remove(&id).await?;
    Ok(())
}

async fn bad_cgroup_parent(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    for parent in ["kubepods-pod1.slice", "/a/../b", "kube.slice:cri:x"] {
        let mut config = podspec::pod(&bed.node, "parent");
        if let Some(linux) = &mut config.linux {
            parent.clone_into(&mut linux.cgroup_parent);
        }
        let error = failed(parent, bed.cri().await?.run_pod(&config).await)?;
        check!(error.message().contains(parent), "{parent}: not named: {error}");
        check!(bed.cri().await?.pods().await?.is_empty(), "{parent}: a pod is listed");
    }
    let mut config = podspec::pod(&bed.node, "parent");
    if let Some(linux) = &mut config.linux {
        linux.cgroup_parent = "kubepods-pod1.slice".to_owned();
    }
    let error = failed("a slice", bed.cri().await?.run_pod(&config).await)?;
    let said = error.message();
    check!(said.contains("systemd") && said.contains("driver"), "no remedy in {said}");
    Ok(())
}

async fn missing_metadata(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("whole").await?;
    let mut cri = bed.cri().await?;
    let answer = cri.runtime.run_pod_sandbox(wire::RunPodSandboxRequest::default()).await;
    named(failed("RunPodSandbox{}", answer)?, "config")?;
    let mut config = podspec::pod(&bed.node, "bare");
    config.metadata = None;
    named(failed("no metadata", cri.run_pod(&config).await)?, "metadata")?;
    for empty in ["name", "namespace", "uid"] {
        let mut config = podspec::pod(&bed.node, "bare");
        if let Some(metadata) = &mut config.metadata {
            match empty {
                "name" => metadata.name.clear(),
                "namespace" => metadata.namespace.clear(),
                _ => metadata.uid.clear(),
            }
        }
        named(failed(empty, cri.run_pod(&config).await)?, empty)?;
    }
    let whole = podspec::container("c", &image, &["true"]);
    let request = wire::CreateContainerRequest { pod_sandbox_id: pod.id.clone(), ..Default::default() };
    named(failed("CreateContainer{}", cri.runtime.create_container(request).await)?, "config")?;
    let bare = wire::ContainerConfig { metadata: None, ..whole.clone() };
    named(failed("no metadata", cri.create(&pod.id, &bare, &pod.config).await)?, "metadata")?;
    let bare = wire::ContainerConfig { image: None, ..whole };
    named(failed("no image", cri.create(&pod.id, &bare, &pod.config).await)?, "image")?;
    let pull = cri.image.pull_image(wire::PullImageRequest::default()).await;
    named(failed("PullImage{}", pull)?, "image")?;
    check!(cri.pods().await?.len() == 1, "a refused request left a pod");
    check!(cri.containers().await?.is_empty(), "a refused request left a container");
    Ok(())
}

fn named(status: Status, field: &str) -> Result<()> {
    check!(status.code() == Code::InvalidArgument, "{field}: {status}");
    check!(status.message().contains(field), "{field} is not named: {status}");
    Ok(())
}

async fn unknown_ids(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let mut cri = bed.cri().await?;
    let id = "0123456789abcdef".repeat(4);
    // Where CRI wants idempotence, an unknown id is success.
    cri.stop_pod(&id).await?;
    cri.remove_pod(&id).await?;
    cri.stop(&id, 0).await?;
    cri.remove(&id).await?;
    cri.remove_image("registry.e2e.test/none:1").await?;
    check!(cri.image_status("registry.e2e.test/none:1").await?.is_none(), "an image from nothing");
    let config = podspec::container("c", "x", &["true"]);
    let errors = [
        failed("PodSandboxStatus", cri.pod(&id).await)?,
        failed("ContainerStatus", cri.container(&id).await)?,
        failed("StartContainer", cri.start(&id).await)?,
        failed("ExecSync", cri.exec(&id, &["true"], 0).await)?,
        failed("ContainerStats", cri.stats(&id).await)?,
        failed("CreateContainer", cri.create(&id, &config, &podspec::pod(&bed.node, "x")).await)?,
    ];
    for error in errors {
        check!(error.code() == Code::NotFound, "{error}");
        check!(error.message().contains(&id[..12]), "the id is not named: {error}");
    }
    Ok(())
}

async fn unknown_handler(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let request = wire::RunPodSandboxRequest {
        config: Some(podspec::pod(&bed.node, "handled")),
        runtime_handler: "nobody".to_owned(),
    };
    let mut cri = bed.cri().await?;
    let error = failed("a handler", cri.runtime.run_pod_sandbox(request).await)?;
    check!(error.message().contains("nobody"), "{error}");
    let request = wire::RunPodSandboxRequest {
        config: Some(podspec::pod(&bed.node, "handled")),
        runtime_handler: "berth".to_owned(),
    };
    let id = cri.runtime.run_pod_sandbox(request).await?.into_inner().pod_sandbox_id;
    bed.node.remember(&id);
    check!(cri.pod(&id).await?.runtime_handler == "berth", "the handler is not told back");
    Ok(())
}

async fn unimplemented_calls(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let mut cri = bed.cri().await?;
    let request = wire::CheckpointContainerRequest::default();
    let error = failed("CheckpointContainer", cri.runtime.checkpoint_container(request).await)?;
    check!(error.code() == Code::Unimplemented, "{error}");
    check!(error.message().contains("CheckpointContainer"), "the call is not named: {error}");
    Ok(())
}
