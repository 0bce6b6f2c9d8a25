//! More CPU and memory for a running container.

use super::{cgroup_file, container, id_of};
use anyhow::Result;
use berth_e2e::check;
use berth_e2e::harness::Bed;
use berth_e2e::kubelet::Kubelet;
use serde_json::Value;

/// The same container goes on with other limits in its files.
pub(super) async fn in_place(bed: &Bed, kubelet: &Kubelet, larger: &Value) -> Result<()> {
    let running = |pod: &Value| container(pod, "c")["state"]["running"].is_object();
    let before = kubelet.until("resized", "running", running).await?;
    let memory = |pod: &Value| cgroup_file(bed, pod, "c", &["memory.limit_in_bytes", "memory.max"]);
    check!(memory(&before)? == (32 << 20).to_string(), "memory before");
    kubelet.put(larger)?;
    let told = |pod: &Value| container(pod, "c")["resources"]["limits"]["memory"] == "48Mi";
    let after = kubelet.until("resized", "resized", told).await?;
    check!(id_of(&after, "c") == id_of(&before, "c"), "it was started anew: {after:#}");
    check!(container(&after, "c")["restartCount"] == 0, "{after:#}");
    check!(memory(&after)? == (48 << 20).to_string(), "memory after");
    let cpu = cgroup_file(bed, &after, "c", &["cpu.cfs_quota_us", "cpu.max"])?;
    check!(cpu.split(' ').next() == Some("20000"), "cpu after: {cpu}");
    // Told after the pod's cgroup was written.
    let complaint = kubelet.complaint("UpdatePodSandboxResources");
    check!(complaint.is_none(), "the kubelet says {complaint:?}");
    Ok(())
}

/// Older kubelets resize only what an API server gave them: 1.34 says so, and the container goes on as it was.
pub(super) async fn refused(kubelet: &Kubelet, larger: &Value) -> Result<()> {
    let running = |pod: &Value| container(pod, "c")["state"]["running"].is_object();
    let before = kubelet.until("resized", "running", running).await?;
    kubelet.put(larger)?;
    let said = |pod: &Value| {
        let mut all = pod["status"]["conditions"].as_array().into_iter().flatten();
        all.any(|c| {
            c["reason"] == "Infeasible" && c["message"] == "In-place resize of static-pods is not supported"
        })
    };
    let after = kubelet.until("resized", "refused", said).await?;
    check!(id_of(&after, "c") == id_of(&before, "c"), "it was started anew: {after:#}");
    Ok(())
}
