//! What a cell of the table plays with: a pod, its container, and a bystander whose exit must not be lost.

use super::verb::Verb;
use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Pod};
use berth_e2e::{check, podspec, procfs};
use berth_proto::cri as wire;
use std::path::PathBuf;

/// What the bystander ends with.
pub(super) const CODE: i32 = 42;

/// One cell's surroundings.
pub(super) struct Scene {
    pub(super) name: String,
    /// The pod that the verb is about; for RunPodSandbox it does not exist yet.
    pub(super) config: wire::PodSandboxConfig,
    pub(super) pod: Option<Pod>,
    /// The container that the verb is about.
    pub(super) container: Option<String>,
    /// Another container and the pod that it is in.
    pub(super) bystander: String,
    pub(super) bystander_pod: String,
    go: PathBuf,
}

impl Scene {
    /// Everything as it must be before the verb.
    pub(super) async fn set(bed: &Bed, verb: Verb, name: &str) -> Result<Self> {
        let config = podspec::pod(&bed.node, name);
        let pod = match verb {
            Verb::PullImage | Verb::RunPodSandbox => None,
            _ => Some(bed.run_pod(config.clone()).await?),
        };
        let container = match &pod {
            Some(pod) => container(bed, pod, verb).await?,
            None => None,
        };
        let apart = pod.is_none() || matches!(verb, Verb::StopPodSandbox | Verb::RemovePodSandbox);
        let home = match &pod {
            Some(pod) if !apart => pod.clone(),
            _ => bed.pod(&format!("{name}-by")).await?,
        };
        let script = format!("while [ ! -e /tmp/go ]; do usleep 2000; done; exit {CODE}");
        let bystander = bed.busybox_in(&home, "bystander", &script).await?;
        let init = procfs::init_of(&bystander).context("the bystander has no process")?;
        let go = PathBuf::from(format!("/proc/{init}/root/tmp/go"));
        if verb == Verb::PullImage {
            bed.registry.push(name, "1", &super::verb::unique_image(name)?);
        }
        Ok(Self { name: name.to_owned(), config, pod, container, bystander, bystander_pod: home.id, go })
    }

    /// Lets the bystander end. On a full disk it cannot be told, so it is told before.
    pub(super) fn release(&self) -> Result<()> {
        std::fs::write(&self.go, "").with_context(|| self.go.display().to_string())
    }

    /// The bystander's exit is known and right; `lost` says that its shim was killed.
    pub(super) async fn no_lost_exit(&self, bed: &Bed, lost: bool) -> Result<()> {
        let status = bed.ended(&self.bystander).await.context("the bystander")?;
        let code = status.exit_code;
        check!(code == CODE || (lost && code == 137), "the bystander ended with {code}: {status:?}");
        Ok(())
    }

    /// Whether the bystander lives in the pod whose shim is killed.
    pub(super) fn shares_pod(&self) -> bool {
        self.pod.as_ref().is_some_and(|pod| pod.id == self.bystander_pod)
    }

    /// What the container of the verb is asked to be.
    pub(super) fn wish(bed: &Bed) -> wire::ContainerConfig {
        let image = bed.image("busybox:1");
        podspec::container("main", &image, &["sh", "-c", "exec sleep 1000"])
    }
}

/// The verb's container, in the state that the verb wants.
async fn container(bed: &Bed, pod: &Pod, verb: Verb) -> Result<Option<String>> {
    if verb == Verb::CreateContainer {
        return Ok(None);
    }
    let id = bed.create(pod, &Scene::wish(bed)).await?;
    let mut cri = bed.cri().await?;
    if verb != Verb::StartContainer {
        cri.start(&id).await?;
    }
    if verb == Verb::RemoveContainer {
        cri.stop(&id, 0).await?;
    }
    if verb == Verb::RemovePodSandbox {
        cri.stop_pod(&pod.id).await?;
    }
    Ok(Some(id))
}
