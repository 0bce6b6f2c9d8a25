//! Control groups: limits in the files, figures in the answers, OOM told from the right group.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context};
use berth_e2e::{check, podspec, tests};
use berth_proto::cri as wire;
use std::path::Path;

tests![limits_in_files, out_of_memory, figures, update, placement];

/// A cgroup file of a container, from whichever hierarchy has it.
fn file(bed: &Bed, pod: &str, id: &str, names: &[&str]) -> Result<String> {
    let path = format!("{}/{id}", bed.node.cgroup().child(pod));
    for dir in bed.node.cgroup().directories(&path) {
        for name in names {
            if let Ok(text) = std::fs::read_to_string(dir.join(name)) {
                return Ok(text.trim().to_owned());
            }
        }
    }
    anyhow::bail!("none of {names:?} in the cgroups of {id}")
}

fn small() -> wire::LinuxContainerResources {
    wire::LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: 50_000,
        cpu_shares: 512,
        memory_limit_in_bytes: 64 << 20,
        cpuset_cpus: "0".to_owned(),
        ..Default::default()
    }
}

/// v2 is told by the root's controllers file.
fn unified() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

async fn limits_in_files(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("limits").await?;
    let config = podspec::container("c", &image, &["sleep", "1000"]);
    let id = bed.start(&pod, &podspec::with_resources(config, small())).await?;
    let read = |names: &[&str]| file(&bed, "limits", &id, names);
    check!(read(&["memory.limit_in_bytes", "memory.max"])? == "67108864", "memory");
    check!(read(&["cpuset.cpus"])? == "0", "cpuset");
    if unified() {
        check!(read(&["cpu.max"])? == "50000 100000", "cpu.max");
    } else {
        check!(read(&["cpu.cfs_quota_us"])? == "50000", "quota");
        check!(read(&["cpu.cfs_period_us"])? == "100000", "period");
        check!(read(&["cpu.shares"])? == "512", "shares");
        let devices = read(&["devices.list"])?;
        check!(!devices.contains("a *:* rwm"), "every device is allowed: {devices}");
        check!(devices.contains("c 1:3 rwm"), "/dev/null is not allowed: {devices}");
    }
    let seen = bed.exec(&id, "grep Cpus_allowed_list /proc/self/status").await?;
    check!(seen == "Cpus_allowed_list:\t0\n", "{seen:?}");
    Ok(())
}

async fn out_of_memory(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = bed.busybox().await?;
    let pod = bed.pod("hungry").await?;
    // tail keeps what has no newline: it grows until it is killed.
    let eat = ["sh", "-c", "exec tail -n 1 /dev/zero"];
    let config = podspec::container("c", &image, &eat);
    let id = bed.start(&pod, &podspec::with_resources(config, small())).await?;
    let healthy = bed.busybox_in(&pod, "healthy", "sleep 1000").await?;
    let status = bed.ended(&id).await?;
    check!(status.reason == "OOMKilled" && status.exit_code == 137, "{status:?}");
    let other = bed.cri().await?.container(&healthy).await?;
    check!(other.state() == wire::ContainerState::ContainerRunning, "{other:?}");
    // Killed by hand under the same limit is not OOMKilled.
    let config = podspec::container("d", &image, &["sleep", "1000"]);
    let id = bed.start(&pod, &podspec::with_resources(config, small())).await?;
    bed.cri().await?.stop(&id, 0).await?;
    let status = bed.ended(&id).await?;
    check!(status.reason == "Error" && status.exit_code == 137, "{status:?}");
    Ok(())
}

async fn figures(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("figures").await?;
    let script = "head -c 8000000 /dev/zero > /dev/shm/fill; head -c 3000000 /dev/zero > /written; \
                  i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo done; sleep 1000";
    let id = bed.busybox_in(&pod, "c", script).await?;
    bed.log(&pod, "c", 1).await?;
    let stats = bed.cri().await?.stats(&id).await?;
    let attributes = stats.attributes.as_ref().context("no attributes")?;
    check!(attributes.id == id, "{stats:?}");
    check!(attributes.metadata.as_ref().is_some_and(|m| m.name == "c"), "{stats:?}");
    let cpu = stats.cpu.as_ref().context("no cpu")?;
    let used = cpu.usage_core_nano_seconds.map_or(0, |v| v.value);
    check!(used > 1_000_000 && cpu.timestamp > 0, "{cpu:?}");
    let memory = stats.memory.as_ref().context("no memory")?;
    let working = memory.working_set_bytes.map_or(0, |v| v.value);
    check!(working > 7_000_000 && working < 200_000_000, "working set {working}");
    let layer = stats.writable_layer.as_ref().context("no writable layer")?;
    let bytes = layer.used_bytes.map_or(0, |v| v.value);
    check!((2_900_000..4_000_000).contains(&bytes), "writable layer {bytes}");
    Ok(())
}

async fn update(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("update").await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    let change = |linux| wire::UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(linux),
        ..Default::default()
    };
    let mut cri = bed.cri().await?;
    cri.runtime.update_container_resources(change(small())).await?;
    let memory = ["memory.limit_in_bytes", "memory.max"];
    check!(file(&bed, "update", &id, &memory)? == "67108864", "memory");
    // All or nothing: a part that cannot be set leaves the rest as it was.
    let bad = wire::LinuxContainerResources {
        memory_limit_in_bytes: 128 << 20,
        cpuset_cpus: "4000".to_owned(),
        ..small()
    };
    check!(cri.runtime.update_container_resources(change(bad)).await.is_err(), "CPU 4000");
    check!(file(&bed, "update", &id, &memory)? == "67108864", "half of a refused change was kept");
    Ok(())
}

/// The container's group lies in the pod's, by its id, in every hierarchy.
async fn placement(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("placed").await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    let pid = berth_e2e::procfs::init_of(&id).context("no process")?;
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let wanted = format!("{}/{id}", bed.node.cgroup().child("placed"));
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let controllers = fields.nth(1).unwrap_or_default();
        let path = fields.next().unwrap_or_default();
        // Controllers that are mounted nowhere cannot be joined.
        let mounted = controllers.is_empty()
            || berth_e2e::node::hierarchies()
                .iter()
                .any(|root| root.ends_with(controllers.trim_start_matches("name=")));
        check!(!mounted || path == wanted, "{line}, wanted {wanted}");
    }
    Ok(())
}
