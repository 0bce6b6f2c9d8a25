//! The product under callers that are not ours: containerd, new and old, with its client and with critest, and Docker.

mod conformance;
mod docker;
mod end;
mod logs;
mod older;
mod tasks;
mod terminal;

use berth_e2e::ctr::Ctr;
use berth_e2e::harness::{Bed, Context, Test};
use berth_e2e::node::{LowLevel, Settings};

/// All tests of this folder.
pub(crate) fn tests() -> Vec<Test> {
    [
        conformance::tests(),
        docker::tests(),
        end::tests(),
        logs::tests(),
        older::tests(),
        tasks::tests(),
        terminal::tests(),
    ]
    .concat()
}

/// A node with containerd, a client, and the name of an image that was pulled.
struct World {
    bed: Bed,
    ctr: Ctr,
    image: String,
}

impl World {
    async fn new(context: &Context, low_level: LowLevel) -> anyhow::Result<Self> {
        let bed = context.bed_with(Settings::containerd(low_level)).await?;
        let ctr = Ctr::new(&bed.node);
        let image = bed.image("busybox:1");
        ctr.pull(&image).await?;
        Ok(Self { bed, ctr, image })
    }

    /// A container that sleeps until it is killed.
    async fn sleeper(&self, id: &str, options: &[&str]) -> anyhow::Result<()> {
        let mut args = vec!["-d"];
        args.extend(options);
        args.extend([self.image.as_str(), id, "sleep", "100000"]);
        let said = self.ctr.run(&args, "").await?;
        berth_e2e::check!(said.code == 0, "ctr run -d ended with {}: {}{}", said.code, said.out, said.err);
        self.bed.node.remember(id);
        Ok(())
    }

    /// Kills and removes it.
    async fn remove(&self, id: &str) -> anyhow::Result<()> {
        self.ctr.ok(&["task", "kill", "-s", "SIGKILL", id]).await?;
        self.ctr.becomes(id, Some("STOPPED")).await?;
        let said = self.ctr.say(&["task", "delete", id]).await?;
        berth_e2e::check!(said.err.contains("exit code 137"), "ctr task delete: {said:?}");
        self.ctr.ok(&["container", "delete", id]).await?;
        self.gone(id)
    }

    /// Nothing of a container's stays: no cgroup, no root file system.
    fn gone(&self, id: &str) -> anyhow::Result<()> {
        let cgroups = self.bed.node.cgroup().directories(&format!("{}/{id}", self.bed.node.tag().name()));
        let bundle = format!("{}/{id}/rootfs", self.bed.node.tag().name());
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        berth_e2e::check!(cgroups.is_empty(), "{id} left {cgroups:?}");
        berth_e2e::check!(!mounts.contains(&bundle), "{id} left a root file system mounted");
        Ok(())
    }
}
