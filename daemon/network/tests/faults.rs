//! Every fault point of the network, one after the other: what was begun is undone from the planned record alone.
//!
//! A binary of its own, since fault points belong to the whole process.

#![allow(clippy::unwrap_used, reason = "clippy's allowance for tests does not reach their helpers")]
#![allow(dead_code, reason = "the world has more than is needed here")]

#[path = "net/world.rs"]
mod world;

use berth_core::fault::{Action, Point};
use berth_network::pod::{PortMapping, Protocol};
use berth_network::{Leases, Manager, Netns, PodNet, faults};
use world::{World, run, until, world};

fn attempt(w: &World, manager: &Manager, point: &Point) -> bool {
    let path = w.path("a");
    let ports =
        vec![PortMapping { protocol: Protocol::Tcp, host_port: 80, container_port: 80, host_ip: None }];
    let (_, pod) = w.pod("other");
    let planned = manager.plan(&PodNet { netns: path.clone(), ports, ..pod }).unwrap();
    point.arm(Action::Fail, 1);
    let mut failed = Netns::create(&path).is_err();
    if failed {
        assert!(!path.exists(), "{}: a pin was left", point.name());
        drop(Netns::create(&path).unwrap());
    }
    failed |= manager.setup(&planned).is_err();
    failed |= manager.teardown(&planned).is_err();
    point.arm(Action::Off, 0);
    // As the kubelet does: again, until it is done.
    manager.teardown(&planned).unwrap();
    Netns::remove(&path).unwrap();
    Netns::remove(&w.path("other")).unwrap();
    failed
}

#[test]
fn each_failure_leaves_nothing() {
    world(|w| {
        let manager = w.builtin("br-a", &["10.77.0.0/24"]);
        for point in faults::FAULTS {
            // Plugins have their own table: here there are none.
            let failed = attempt(w, &manager, point);
            assert_eq!(failed, point.name() != faults::PLUGIN.name(), "{}", point.name());
            assert!(w.leases.list().unwrap().is_empty(), "{}", point.name());
            until("the veth is gone", || !run("ip", &["-br", "link"]).contains("veth"));
            let rules = run("nft", &["list", "ruleset"]);
            assert!(!rules.contains("elements"), "{}: {rules}", point.name());
        }
        assert!(manager.retire().unwrap());
        assert_eq!(run("nft", &["list", "ruleset"]), "");
    });
}
