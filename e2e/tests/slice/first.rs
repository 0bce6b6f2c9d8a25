//! The whole way once: image, pod, container, network, exec, log, stop, remove.

use anyhow::Result;
use berth_e2e::harness::Context;
use berth_e2e::{check, tests};

tests![first_pod];

async fn first_pod(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("first").await?;
    let id = bed.busybox_in(&pod, "main", "echo hello; exec sleep 1000").await?;
    let said = bed.log(&pod, "main", 1).await?;
    check!(said == "hello", "the log says {said:?}");
    let address = bed.exec(&id, "ip -4 addr show eth0 | grep inet").await?;
    let status = bed.cri().await?.pod(&pod.id).await?;
    let ip = status.network.map(|network| network.ip).unwrap_or_default();
    check!(!ip.is_empty() && address.contains(&ip), "status says {ip:?}, the pod {address:?}");
    Ok(())
}
