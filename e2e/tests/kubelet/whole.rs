//! The pod with everything: it goes Ready, lies in its cgroup, answers, and is counted.

use super::manifests::PORTS;
use super::{cgroup_file, container};
use anyhow::{Context as _, Result};
use berth_e2e::check;
use berth_e2e::harness::Bed;
use berth_e2e::kubelet::{Kubelet, place};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

/// Init first, then the sidecar, then both containers; Ready only once the probed page is there.
pub(super) async fn goes_ready(kubelet: &Kubelet) -> Result<()> {
    let started =
        |pod: &Value| container(pod, "talk")["ready"] == true && container(pod, "web")["started"] == true;
    let pod = kubelet.until("whole", "started", started).await?;
    check!(container(&pod, "first")["state"]["terminated"]["reason"] == "Completed", "{pod:#}");
    check!(container(&pod, "side")["ready"] == true, "the sidecar is not ready: {pod:#}");
    check!(!ready(&pod), "Ready before the probed page is there: {pod:#}");
    kubelet.api().run("whole", "talk", "touch /shared/go").await?;
    let pod = kubelet.until("whole", "Ready", ready).await?;
    check!(pod["status"]["phase"] == "Running", "{pod:#}");
    let trace = std::fs::read_to_string(kubelet.dir().join("trace/t"))?;
    let mut order: Vec<&str> = trace.lines().collect();
    // The hook runs beside the program.
    order.get_mut(2..).context("too short a trace")?.sort_unstable();
    check!(order == ["init", "side", "postStart", "web"], "{trace}");
    Ok(())
}

/// The container's cgroups lie in the kubelet's of its pod, with its limits.
pub(super) async fn limits_in_files(bed: &Bed, kubelet: &Kubelet) -> Result<()> {
    let pod = kubelet.pod("whole").await?.context("gone")?;
    let read = |name: &str, files: &[&str]| cgroup_file(bed, &pod, name, files);
    check!(read("web", &["memory.limit_in_bytes", "memory.max"])? == (64 << 20).to_string(), "memory");
    check!(read("talk", &["memory.limit_in_bytes", "memory.max"])? == (48 << 20).to_string(), "memory");
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        check!(read("web", &["cpu.max"])? == "20000 100000", "cpu");
    } else {
        check!(read("web", &["cpu.cfs_quota_us"])? == "20000", "quota");
        check!(read("web", &["cpu.shares"])? == "51", "shares");
    }
    check!(read("side", &["cgroup.procs"])?.lines().count() >= 1, "the sidecar's cgroup is empty");
    Ok(())
}

/// What its containers see, asked through the kubelet; logs likewise.
pub(super) async fn inside(kubelet: &Kubelet) -> Result<()> {
    let pod = kubelet.pod("whole").await?.context("gone")?;
    let run = |command: &'static str| kubelet.api().run("whole", "talk", command);
    check!(run("cat /sub/file /etc/one").await? == "from-init\nfrom-init\n", "subPath");
    check!(run("cat /info/labels").await? == "app=\"whole\"", "downward API");
    let ip = pod["status"]["podIP"].as_str().context("no podIP")?;
    check!(run("ip -4 addr show eth0").await?.contains(&format!("inet {ip}/")), "{ip} is not on eth0");
    let environment = run("env").await?;
    for line in ["WORD=grüß".to_owned(), format!("ADDRESS={ip}"), format!("MEMORY={}", 48 << 20)] {
        check!(environment.lines().any(|l| l == line), "{line} is not in {environment}");
    }
    check!(run("cat /etc/hosts").await?.contains(&format!("{ip}\twhole-n1")), "/etc/hosts");
    check!(run("hostname").await? == "whole-n1\n", "hostname");
    let log = kubelet.api().log("whole", "talk").await?;
    // One line went to stdout and one to stderr: which is read first is nobody's promise.
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    check!(lines == ["aside", &format!("grüß {}", 48 << 20)], "the log says {log:?}");
    Ok(())
}

/// From the node by the pod's address and by the host port.
pub(super) async fn reached(bed: &Bed, kubelet: &Kubelet) -> Result<()> {
    let pod = kubelet.pod("whole").await?.context("gone")?;
    let ip = pod["status"]["podIP"].as_str().context("no podIP")?;
    let subnet = bed.node.subnet();
    check!(subnet.split('.').take(3).eq(ip.split('.').take(3)), "{ip} is not of {subnet}");
    for (address, port) in [(ip, PORTS.0), (place::ADDRESS, PORTS.1), ("127.0.0.1", PORTS.1)] {
        let page = tokio::time::timeout(Duration::from_secs(10), page(address, port)).await;
        let page = page.ok().context("no answer").and_then(|page| page);
        let page = page.with_context(|| format!("{address}:{port}"))?;
        check!(page.ends_with("\r\n\r\npage\n"), "{address}:{port} says {page:?}");
    }
    Ok(())
}

async fn page(address: &str, port: u16) -> Result<String> {
    let mut stream = TcpStream::connect((address, port)).await?;
    stream.write_all(b"GET /page HTTP/1.0\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}

/// CPU and memory of the pod and of each container are told, and what went through its link; nothing of it is 0.
///
/// The link's figures come from the runtime: cAdvisor knows the links of two other runtimes only.
pub(super) async fn figures(kubelet: &Kubelet, from_runtime: bool) -> Result<()> {
    let mut wrong = String::new();
    for _ in 0..60 {
        let summary: Value = serde_json::from_str(&kubelet.api().get("/stats/summary").await?)?;
        wrong = missing(&summary, from_runtime);
        if wrong.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    anyhow::bail!("/stats/summary: {wrong}")
}

/// Figures that are not told or 0, one a line.
fn missing(summary: &Value, link: bool) -> String {
    let pods = summary["pods"].as_array().into_iter().flatten();
    let Some(pod) = pods.into_iter().find(|pod| pod["podRef"]["name"] == "whole-n1") else {
        return "no pod".to_owned();
    };
    let mut all = vec![("pod", pod)];
    let containers = pod["containers"].as_array();
    all.extend(containers.into_iter().flatten().map(|c| (c["name"].as_str().unwrap_or_default(), c)));
    let mut missing = Vec::new();
    for name in ["pod", "side", "web", "talk"] {
        let mut groups = vec![("cpu", "usageCoreNanoSeconds"), ("memory", "workingSetBytes")];
        if link && name == "pod" {
            groups.extend([("network", "rxBytes"), ("network", "txBytes")]);
        }
        let of = all.iter().find(|(found, _)| *found == name).map_or(&Value::Null, |(_, of)| of);
        groups.retain(|(group, figure)| of[group][figure].as_u64().unwrap_or_default() == 0);
        missing
            .extend(groups.iter().map(|(group, figure)| format!("{name} {group} {figure}: {}", of[group])));
    }
    missing.join("\n")
}
