//! Reading the figures.

use super::cache::{Layer, writable};
use super::{ContainerStats, Interface, PodStats, Usage, Writable};
use crate::container::ContainerRecord;
use crate::pod::{Ground, PodView};
use crate::sandbox::{SandboxNetwork, SandboxRecord};
use berth_cgroup::{Cgroup, CgroupPath};
use berth_core::Timestamp;
use std::sync::Arc;

/// The interface that a pod's address is on.
const DEFAULT_INTERFACE: &str = "eth0";

/// The figures of one container.
pub(crate) async fn container(ground: &Arc<Ground>, record: &Arc<ContainerRecord>) -> ContainerStats {
    let (base, cgroup) = (Arc::clone(ground), record.cgroup.clone());
    let usage = ground.block("read a container's cgroup", move || Ok(read(&base, &cgroup))).await;
    let usage = usage.ok().flatten();
    ContainerStats { record: Arc::clone(record), usage, writable: layer(ground, record).await }
}

/// The figures of a pod; none if there is no sandbox any more.
pub(crate) async fn pod(ground: &Arc<Ground>, view: &PodView) -> Option<PodStats> {
    let sandbox = view.sandbox.clone()?;
    let (base, record) = (Arc::clone(ground), Arc::clone(&sandbox));
    let whole =
        ground.block("read a pod's cgroup", move || Ok((read(&base, &parent(&record)), interfaces(&record))));
    let (usage, interfaces) = whole.await.unwrap_or_default();
    let mut containers = Vec::new();
    for record in view.containers.values().filter(|record| record.is_running()) {
        containers.push(container(ground, record).await);
    }
    Some(PodStats { sandbox, usage, interfaces, at: Timestamp::now(), containers })
}

/// The pod's cgroup is the one its leaves are in. Without a parent of its own, a pod has none.
fn parent(record: &SandboxRecord) -> String {
    if record.config.cgroup_parent.is_empty() { String::new() } else { record.config.cgroup_parent.clone() }
}

fn read(ground: &Ground, cgroup: &str) -> Option<Usage> {
    let path = match CgroupPath::parse(ground.driver, cgroup) {
        Ok(path) => path,
        Err(_) => return None,
    };
    let stats = Cgroup::open(&ground.hierarchies, &path).ok()?.stats();
    let at = Timestamp::now();
    let nano_cores = stats.cpu.usage_ns.and_then(|usage| ground.stats.rate(cgroup, usage));
    Some(Usage { at, cgroup: stats, nano_cores })
}

/// The writable layer as last measured. A big one takes its time: only the first reading waits for it.
async fn layer(ground: &Arc<Ground>, record: &Arc<ContainerRecord>) -> Option<Writable> {
    let id = record.id;
    match ground.stats.layer(id.as_str()) {
        Layer::Fresh(known) => Some(known),
        Layer::Old(known) => {
            ground.stats.renew(id.as_str());
            let ground = Arc::clone(ground);
            let record = Arc::clone(record);
            tokio::spawn(async move { measure(&ground, &record).await });
            Some(known)
        }
        Layer::Unknown => measure(ground, record).await,
    }
}

async fn measure(ground: &Arc<Ground>, record: &Arc<ContainerRecord>) -> Option<Writable> {
    let (base, id) = (Arc::clone(ground), record.id);
    let measured =
        ground.block("measure a writable layer", move || Ok(base.snapshots.usage(id.as_str()).ok()));
    let usage = measured.await.ok().flatten()?;
    let found = writable(&usage, ground.snapshots.image_filesystem().to_owned());
    ground.stats.measured(id.as_str(), found.clone());
    Some(found)
}

/// The interfaces of a pod, the default one first. Any process of the pod's network sees them.
fn interfaces(record: &SandboxRecord) -> Vec<Interface> {
    let SandboxNetwork::Own { netns, .. } = &record.network else { return Vec::new() };
    let inside = berth_network::Netns::open(netns).and_then(|netns| {
        // Per thread: the thread that works inside the namespace sees its table.
        netns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))
    });
    match inside {
        Ok(Ok(table)) => parse(&table),
        _ => Vec::new(),
    }
}

fn parse(table: &str) -> Vec<Interface> {
    let interface = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let counters: Vec<u64> = counters.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let at = |index: usize| counters.get(index).copied();
        Some(Interface {
            name: name.trim().to_owned(),
            rx_bytes: at(0)?,
            rx_errors: at(2)?,
            tx_bytes: at(8)?,
            tx_errors: at(10)?,
        })
    };
    let mut all: Vec<Interface> =
        table.lines().filter_map(interface).filter(|found| found.name != "lo").collect();
    all.sort_by_key(|found| (found.name != DEFAULT_INTERFACE, found.name.clone()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_interface_is_first_and_loopback_is_left_out() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
            lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0\n  \
            aeth:       1       1    0    0    0     0          0         0        2       1    0    0    0     0       0          0\n  \
            eth0:    1000      10    3    0    0     0          0         0     2000      20    4    0    0     0       0          0\n";
        let all = parse(table);
        let names: Vec<&str> = all.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["eth0", "aeth"]);
        assert_eq!(
            (all[0].rx_bytes, all[0].rx_errors, all[0].tx_bytes, all[0].tx_errors),
            (1000, 3, 2000, 4)
        );
    }
}
