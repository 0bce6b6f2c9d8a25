//! Reading the figures.

use super::cache::writable;
use super::{ContainerStats, Interface, PodStats, Usage, Writable};
use crate::blocking::Room;
use crate::container::ContainerRecord;
use crate::pod::{Ground, PodView};
use crate::sandbox::{SandboxNetwork, SandboxRecord};
use berth_cgroup::{Cgroup, CgroupPath};
use berth_core::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// The interface that a pod's address is on.
const DEFAULT_INTERFACE: &str = "eth0";
/// Measured layers older than this are measured again.
const FRESH: Duration = Duration::from_secs(10);
/// A big layer takes its time; an answer without its figure is better than a late one.
const PATIENCE: Duration = Duration::from_millis(200);

/// The figures of one container.
pub(crate) async fn container(ground: &Arc<Ground>, record: &Arc<ContainerRecord>) -> ContainerStats {
    let (base, cgroup) = (Arc::clone(ground), record.cgroup.clone());
    let read = move || Ok(CgroupPath::recorded(&cgroup).ok().and_then(|path| read(&base, &path)));
    let usage = ground.block_in(Room::Look, "read a container's cgroup", read);
    let (usage, writable) = tokio::join!(usage, layer(ground, record));
    ContainerStats { record: Arc::clone(record), usage: usage.ok().flatten(), writable }
}

/// The figures of a pod; none if there is no sandbox any more.
pub(crate) async fn pod(ground: &Arc<Ground>, view: &PodView) -> Option<PodStats> {
    let sandbox = view.sandbox.clone()?;
    let (base, record) = (Arc::clone(ground), Arc::clone(&sandbox));
    let read = move || Ok((whole(&base, &record), interfaces(&record)));
    let read = ground.block_in(Room::Look, "read a pod's cgroup", read);
    let running = view.containers.values().filter(|record| record.is_running());
    let containers = futures_util::future::join_all(running.map(|record| container(ground, record)));
    let (read, containers) = tokio::join!(read, containers);
    let (usage, interfaces) = read.unwrap_or_default();
    Some(PodStats { sandbox, usage, interfaces, at: Timestamp::now(), containers })
}

/// The pod's cgroup is the one its leaves are in. Without a parent of its own, a pod has none.
fn whole(ground: &Ground, record: &SandboxRecord) -> Option<Usage> {
    read(ground, &CgroupPath::of_parent(&record.config.cgroup_parent).ok()?)
}

fn read(ground: &Ground, path: &CgroupPath) -> Option<Usage> {
    let stats = Cgroup::open(&ground.hierarchies, path).ok()?.stats();
    let at = Timestamp::now();
    let nano_cores = stats.cpu.usage_ns.and_then(|usage| ground.stats.rate(&path.relative(), usage));
    Some(Usage { at, cgroup: stats, nano_cores })
}

/// The writable layer as last measured.
async fn layer(ground: &Arc<Ground>, record: &Arc<ContainerRecord>) -> Option<Writable> {
    let (base, id) = (Arc::clone(ground), record.id);
    let measure = || async move {
        let (walked, place) = (Arc::clone(&base), base.snapshots.image_filesystem().to_owned());
        let walk = move || Ok(walked.snapshots.usage(id.as_str()).ok());
        let usage = base.block_in(Room::Walk, "measure a writable layer", walk).await.ok().flatten()?;
        Some(writable(&usage, place))
    };
    ground.stats.layer(id.as_str()).get(FRESH, PATIENCE, measure).await
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
