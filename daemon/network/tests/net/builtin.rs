//! Pods on the built-in bridge: they reach each other and the outside, and leave nothing.

use std::collections::BTreeSet;

use berth_network::builtin::BuiltinError;
use berth_network::pod::{PortMapping, Protocol};
use berth_network::settings::BuiltinSettings;
use berth_network::{Leases, Manager, Mode, Netns, NetworkError, Settings, Subnet};

use crate::world::{OUTSIDE, Pod, World, call_from, run, serve, until, world};

const SUBNET: &str = "10.77.0.0/24";

#[test]
fn a_namespace_is_pinned_with_loopback_up_and_removed_twice() {
    world(|w| {
        let path = w.path("ns");
        let netns = Netns::create(&path).unwrap();
        let lo = netns.run(|| run("ip", &["-br", "addr", "show", "lo"])).unwrap();
        assert!(lo.contains("127.0.0.1/8"), "{lo}");
        assert!(Netns::create(&path).is_err(), "a pin is never taken over");
        drop(netns);
        assert!(Netns::is_pinned(&path));
        Netns::remove(&path).unwrap();
        Netns::remove(&path).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        assert!(!Netns::is_pinned(&path));
        Netns::create(&path).unwrap();
        Netns::remove(&path).unwrap();
    });
}

#[test]
fn two_pods_talk_and_reach_the_outside_by_the_nodes_address() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        assert!(manager.status().ready, "{:?}", manager.status());
        let outside = w.outside();
        serve(&outside, "outside", "0.0.0.0:80");
        let (a, b) = (w.attached(&manager, "a", vec![]), w.attached(&manager, "b", vec![]));
        assert_eq!([a.ip().to_string(), b.ip().to_string()], ["10.77.0.2", "10.77.0.3"]);
        serve(&b.netns, "b", "0.0.0.0:80");
        assert_eq!(call_from(&a.netns, "10.77.0.3:80").as_deref(), Some("b 10.77.0.2"));
        let seen = call_from(&a.netns, &format!("{OUTSIDE}:80"));
        assert_eq!(seen.as_deref(), Some("outside 192.0.2.1"), "masqueraded");
        manager.check(&a.attachment).unwrap();
        let accept_ra = |link: &str| run("sysctl", &["-n", &format!("net.ipv6.conf.{link}.accept_ra")]);
        let inside = a.netns.run(|| accept_ra("eth0")).unwrap();
        assert_eq!(
            (accept_ra("br-a").trim(), inside.trim()),
            ("0", "0"),
            "a pod cannot announce itself as a router"
        );
        let mac = a.netns.run(|| run("ip", &["link", "show", "eth0"])).unwrap();
        assert!(mac.contains(a.attachment.mac.as_deref().unwrap()), "{mac}");
    });
}

#[test]
fn the_masquerade_rule_is_there_only_if_wanted() {
    world(|w| {
        let rules = |bridge: &str, masquerade| {
            let subnets = vec![Subnet::parse(SUBNET).unwrap()];
            let builtin = BuiltinSettings { bridge: bridge.into(), subnets, masquerade, mtu: Some(1400) };
            let settings = Settings { mode: Mode::Builtin, builtin, ..Settings::default() };
            let manager = Manager::new(settings, w.leases.clone());
            let pod = w.attached(&manager, bridge, vec![]);
            let link = pod.netns.run(|| run("ip", &["link", "show", "eth0"])).unwrap();
            assert!(link.contains("mtu 1400"), "{link}");
            let rules = run("nft", &["list", "ruleset"]);
            manager.destroy().unwrap();
            rules
        };
        let rule = "oifname != \"bra\" ip saddr 10.77.0.0/24 masquerade";
        let with = rules("bra", true);
        assert!(with.contains(rule), "{with}");
        let without = rules("brb", false);
        assert!(without.contains("hook postrouting") && !without.contains("oifname !="), "{without}");
    });
}

#[test]
fn teardown_and_retire_leave_nothing() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let pod = w.attached(&manager, "a", vec![]);
        assert!(!manager.retire().unwrap(), "a pod holds an address");
        manager.teardown(&pod.attachment).unwrap();
        manager.teardown(&pod.attachment).unwrap();
        assert!(w.leases.list().unwrap().is_empty());
        let path = pod.path().to_owned();
        drop(pod);
        Netns::remove(&path).unwrap();
        until("the veth is gone", || !run("ip", &["-br", "link"]).contains("veth"));
        assert!(manager.retire().unwrap());
        assert!(manager.retire().unwrap());
        let links = run("ip", &["-br", "link"]);
        assert_eq!(links.lines().count(), 1, "{links}");
        assert_eq!(run("nft", &["list", "ruleset"]), "");
    });
}

#[test]
fn two_daemons_live_side_by_side() {
    world(|w| {
        let (one, two) = (w.builtin("br-a", &[SUBNET]), w.builtin("br-b", &["10.78.0.0/24"]));
        let (a, b) = (w.attached(&one, "a", vec![]), w.attached(&two, "b", vec![]));
        serve(&b.netns, "b", "0.0.0.0:80");
        assert!(call_from(&a.netns, "10.78.0.2:80").is_some());
        one.destroy().unwrap();
        let tables = run("nft", &["list", "tables"]);
        assert_eq!(tables.trim(), "table inet berth_br_2db");
        two.check(&b.attachment).unwrap();
        assert!(one.check(&a.attachment).is_err());
    });
}

#[test]
fn a_subnet_that_the_node_reaches_otherwise_is_refused() {
    world(|w| {
        let _outside = w.outside();
        let manager = w.builtin("br-a", &["192.0.2.128/25"]);
        let status = manager.status();
        assert!(!status.ready && status.message.contains("up0"), "{status:?}");
        let (_netns, pod) = w.pod("a");
        let refused = manager.setup(&manager.plan(&pod).unwrap()).unwrap_err();
        assert!(
            matches!(&refused, NetworkError::Builtin(BuiltinError::SubnetInUse { interface, .. }) if interface == "up0"),
            "{refused}"
        );
        assert!(w.leases.list().unwrap().is_empty());
        run("ip", &["link", "add", "br-c", "type", "veth", "peer", "name", "x"]);
        let other = w.builtin("br-c", &[SUBNET]);
        assert!(other.status().message.contains("is a veth"), "{:?}", other.status());
    });
}

#[test]
fn a_setup_cut_short_can_be_repeated() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let pod = w.attached(&manager, "a", vec![]);
        let again = manager.setup(&pod.attachment).unwrap();
        assert_eq!(again.ips, pod.attachment.ips);
        manager.check(&again).unwrap();
    });
}

#[test]
fn restore_brings_back_what_somebody_removed() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let (a, b) = (w.attached(&manager, "a", vec![]), w.attached(&manager, "b", vec![]));
        manager.destroy().unwrap();
        w.leases.acquire(SUBNET, "stray", &mut |_| "10.77.0.9".parse().ok()).unwrap();
        manager.restore(&[a.attachment.clone(), b.attachment.clone()]).unwrap();
        assert_eq!(w.leases.list().unwrap().len(), 2);
        serve(&b.netns, "b", "0.0.0.0:80");
        assert!(call_from(&a.netns, "10.77.0.3:80").is_some());
        manager.check(&a.attachment).unwrap();
    });
}

#[test]
fn a_pod_whose_record_cannot_be_read_keeps_its_address_while_it_lives() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let port = PortMapping { protocol: Protocol::Tcp, host_port: 80, container_port: 80, host_ip: None };
        let (a, b) = (w.attached(&manager, "a", vec![port]), w.attached(&manager, "b", vec![]));
        let ports = || run("nft", &["list", "map", "inet", "berth_br_2da", "ports4"]);
        manager.restore(std::slice::from_ref(&b.attachment)).unwrap();
        assert_eq!(w.leases.held(&a.attachment.pod.sandbox).unwrap().len(), 1);
        assert!(ports().contains("10.77.0.2 . 80"));
        let (path, sandbox) = (a.path().to_owned(), a.attachment.pod.sandbox.clone());
        drop(a);
        Netns::remove(&path).unwrap();
        until("its interface is gone", || run("ip", &["-br", "link"]).matches("veth").count() == 1);
        manager.restore(std::slice::from_ref(&b.attachment)).unwrap();
        assert!(w.leases.held(&sandbox).unwrap().is_empty());
        assert!(!ports().contains("elements"));
    });
}

#[test]
fn dual_stack_addresses_work_at_once() {
    world(|w| {
        let manager = w.builtin("br-a", &["fd00:77::/64", SUBNET]);
        let outside = w.outside();
        serve(&outside, "outside", "[::]:80");
        let (a, b) = (w.attached(&manager, "a", vec![]), w.attached(&manager, "b", vec![]));
        let addresses: Vec<_> = a.attachment.addresses().iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["fd00:77::2", "10.77.0.2"]);
        serve(&b.netns, "b", "[::]:80");
        assert_eq!(call_from(&a.netns, "[fd00:77::3]:80").as_deref(), Some("b fd00:77::2"));
        assert_eq!(call_from(&a.netns, "10.77.0.3:80").as_deref(), Some("b ::ffff:10.77.0.2"));
        assert_eq!(call_from(&a.netns, "[2001:db8::2]:80").as_deref(), Some("outside 2001:db8::1"));
        manager.check(&a.attachment).unwrap();
    });
}

#[test]
fn a_firewall_that_drops_what_is_forwarded_lets_the_bridge_through() {
    world(|w| {
        run(
            "nft",
            &[
                "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }",
            ],
        );
        let before = run("nft", &["list", "ruleset"]);
        let manager = w.builtin("br-a", &[SUBNET]);
        let outside = w.outside();
        serve(&outside, "outside", "0.0.0.0:80");
        let a = w.attached(&manager, "a", vec![]);
        assert!(call_from(&a.netns, &format!("{OUTSIDE}:80")).is_some());
        manager.restore(std::slice::from_ref(&a.attachment)).unwrap();
        let rules = run("nft", &["list", "chain", "ip", "filter", "FORWARD"]);
        assert_eq!(rules.matches("comment \"berth br-a\"").count(), 2, "{rules}");
        manager.destroy().unwrap();
        assert_eq!(run("nft", &["list", "ruleset"]), before);
    });
}

#[test]
fn many_pods_at_once_get_addresses_of_their_own() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET, "fd00:77::/64"]);
        let names: Vec<String> = (0..24).map(|i| format!("p{i}")).collect();
        let pods: Vec<Pod> = std::thread::scope(|scope| {
            let manager = &manager;
            let spawn = |names| scope.spawn(move || chunk_of_pods(w, manager, names));
            let threads: Vec<_> = names.chunks(4).map(spawn).collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        let addresses: BTreeSet<_> = pods.iter().flat_map(|p| p.attachment.addresses()).collect();
        assert_eq!(addresses.len(), 48);
        for pod in &pods {
            manager.check(&pod.attachment).unwrap();
        }
    });
}

fn chunk_of_pods(w: &World, manager: &Manager, names: &[String]) -> Vec<Pod> {
    names.iter().map(|name| w.attached(manager, name, vec![])).collect()
}

#[test]
fn a_bridge_of_the_administrator_is_used_and_never_removed() {
    world(|w| {
        run("ip", &["link", "add", "br-a", "type", "bridge"]);
        let manager = w.builtin("br-a", &[SUBNET]);
        let pod = w.attached(&manager, "a", vec![]);
        manager.check(&pod.attachment).unwrap();
        manager.destroy().unwrap();
        assert!(run("ip", &["-br", "link", "show", "br-a"]).contains("UP"));
    });
}

#[test]
fn pods_take_the_mtu_of_the_way_out() {
    world(|w| {
        let _outside = w.outside();
        run("ip", &["link", "set", "up0", "mtu", "1400"]);
        run("ip", &["route", "add", "default", "via", OUTSIDE]);
        let manager = w.builtin("br-a", &[SUBNET]);
        let pod = w.attached(&manager, "a", vec![]);
        let link = pod.netns.run(|| run("ip", &["link", "show", "eth0"])).unwrap();
        assert!(link.contains("mtu 1400"), "{link}");
    });
}
