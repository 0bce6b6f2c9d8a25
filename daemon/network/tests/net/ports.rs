//! Host ports: from the outside, from the node, by 127.0.0.1, from the pods themselves.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use berth_network::NetworkError;
use berth_network::builtin::BuiltinError;
use berth_network::pod::{PortMapping, Protocol};

use crate::world::{NODE, call, call_from, run, serve, world};

const SUBNET: &str = "10.77.0.0/24";

fn map(protocol: Protocol, host_port: u16, container_port: u16, host_ip: &str) -> PortMapping {
    let host_ip = (!host_ip.is_empty()).then(|| host_ip.parse().unwrap());
    PortMapping { protocol, host_port, container_port, host_ip }
}

#[test]
fn a_host_port_leads_to_the_pod_from_everywhere() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let outside = w.outside();
        let a = w.attached(&manager, "a", vec![map(Protocol::Tcp, 8080, 80, "")]);
        let b = w.attached(&manager, "b", vec![]);
        serve(&a.netns, "a", "0.0.0.0:80");
        let by_node = format!("{NODE}:8080");
        assert_eq!(call_from(&outside, &by_node).as_deref(), Some("a 192.0.2.2"), "outside, source kept");
        assert_eq!(call(by_node.parse().unwrap()).as_deref(), Some("a 192.0.2.1"), "the node");
        assert_eq!(call("127.0.0.1:8080".parse().unwrap()).as_deref(), Some("a 10.77.0.1"), "loopback");
        assert_eq!(call_from(&a.netns, &by_node).as_deref(), Some("a 10.77.0.1"), "the pod itself");
        assert_eq!(call_from(&b.netns, &by_node).as_deref(), Some("a 10.77.0.1"), "another pod");
        assert_eq!(call_from(&outside, &format!("{NODE}:8081")), None);
        manager.teardown(&a.attachment).unwrap();
        assert_eq!(call_from(&outside, &by_node), None);
        assert_eq!(call("127.0.0.1:8080".parse().unwrap()), None);
    });
}

#[test]
fn a_mapping_bound_to_an_address_answers_only_there_and_wins() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let outside = w.outside();
        let local = w.attached(&manager, "l", vec![map(Protocol::Tcp, 8080, 80, "127.0.0.1")]);
        serve(&local.netns, "local", "0.0.0.0:80");
        assert_eq!(call_from(&outside, &format!("{NODE}:8080")), None);
        assert!(call("127.0.0.1:8080".parse().unwrap()).unwrap().starts_with("local"));
        let all = w.attached(&manager, "a", vec![map(Protocol::Tcp, 8080, 80, "0.0.0.0")]);
        serve(&all.netns, "all", "0.0.0.0:80");
        assert!(call_from(&outside, &format!("{NODE}:8080")).unwrap().starts_with("all"));
        assert!(call("127.0.0.1:8080".parse().unwrap()).unwrap().starts_with("local"));
    });
}

#[test]
fn traffic_through_the_node_is_not_caught() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let outside = w.outside();
        serve(&outside, "outside", "0.0.0.0:8080");
        let a = w.attached(&manager, "a", vec![map(Protocol::Tcp, 8080, 80, "")]);
        serve(&a.netns, "a", "0.0.0.0:80");
        let seen = call_from(&a.netns, "192.0.2.2:8080");
        assert_eq!(seen.as_deref(), Some("outside 192.0.2.1"));
    });
}

#[test]
fn a_port_that_leads_elsewhere_is_refused_by_name() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let a = w.attached(&manager, "a", vec![map(Protocol::Sctp, 7, 7, "")]);
        let (_netns, mut pod) = w.pod("b");
        pod.ports =
            vec![map(Protocol::Udp, 9, 9, ""), map(Protocol::Tcp, 0, 1, ""), map(Protocol::Sctp, 7, 7, "")];
        let planned = manager.plan(&pod).unwrap();
        let refused = manager.setup(&planned).unwrap_err();
        assert!(matches!(refused, NetworkError::Builtin(BuiltinError::PortTaken { .. })), "{refused}");
        assert!(refused.to_string().contains("7/sctp"), "{refused}");
        manager.teardown(&planned).unwrap();
        let listed = run("nft", &["list", "map", "inet", "berth_br_2da", "ports4"]);
        assert!(listed.contains("sctp . 7 : 10.77.0.2 . 7") && !listed.contains("udp"), "{listed}");
        manager.teardown(&a.attachment).unwrap();
        manager.setup(&planned).unwrap();
    });
}

#[test]
fn ports_survive_a_rebuild_and_a_repeated_teardown_harms_no_successor() {
    world(|w| {
        let manager = w.builtin("br-a", &["10.77.0.0/30"]);
        let a = w.attached(&manager, "a", vec![map(Protocol::Tcp, 8080, 80, "")]);
        run("nft", &["flush", "ruleset"]);
        manager.restore(std::slice::from_ref(&a.attachment)).unwrap();
        serve(&a.netns, "a", "0.0.0.0:80");
        assert!(call("127.0.0.1:8080".parse().unwrap()).is_some());
        manager.teardown(&a.attachment).unwrap();
        let b = w.attached(&manager, "b", vec![map(Protocol::Tcp, 8080, 80, "")]);
        assert_eq!(a.ip(), b.ip(), "the subnet has one address");
        manager.teardown(&a.attachment).unwrap();
        let listed = run("nft", &["list", "map", "inet", "berth_br_2da", "ports4"]);
        assert!(listed.contains("tcp . 8080 : 10.77.0.2 . 80"), "{listed}");
    });
}

#[test]
fn a_datagram_flow_follows_its_pod() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let outside = w.outside();
        let client = outside.run(|| UdpSocket::bind("0.0.0.0:5000").unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut answers = Vec::new();
        let stale = UdpSocket::bind("0.0.0.0:53").unwrap();
        client.send_to(b"x", format!("{NODE}:53")).unwrap();
        // Until it is there it may still wait for a neighbour's address, and would go wherever the port leads by then.
        stale.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(stale.recv_from(&mut [0; 16]).unwrap().0, 1);
        drop(stale);
        for name in ["a", "b"] {
            let pod = w.attached(&manager, name, vec![map(Protocol::Udp, 53, 53, "")]);
            let server = pod.netns.run(|| UdpSocket::bind("0.0.0.0:53").unwrap()).unwrap();
            server.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            client.send_to(name.as_bytes(), format!("{NODE}:53")).unwrap();
            let mut buffer = [0; 16];
            let (n, _) = server.recv_from(&mut buffer).unwrap_or_else(|e| panic!("{name}: {e}"));
            answers.push(String::from_utf8_lossy(&buffer[..n]).into_owned());
            manager.teardown(&pod.attachment).unwrap();
        }
        assert_eq!(answers, ["a", "b"]);
    });
}

#[test]
fn ipv6_ports_lead_to_the_pod() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET, "fd00:77::/64"]);
        let outside = w.outside();
        let a = w.attached(&manager, "a", vec![map(Protocol::Tcp, 8080, 80, "")]);
        serve(&a.netns, "a", "[::]:80");
        assert_eq!(call_from(&outside, "[2001:db8::1]:8080").as_deref(), Some("a 2001:db8::2"));
        assert_eq!(call_from(&a.netns, "[2001:db8::1]:8080").as_deref(), Some("a fd00:77::1"));
        assert_eq!(call("[::1]:8080".parse().unwrap()), None, "refused, not lost");
    });
}

#[test]
fn pods_do_not_reach_what_listens_on_the_nodes_loopback() {
    world(|w| {
        let manager = w.builtin("br-a", &[SUBNET]);
        let a = w.attached(&manager, "a", vec![map(Protocol::Tcp, 8080, 80, "")]);
        let node = TcpListener::bind("127.0.0.1:9999").unwrap();
        std::thread::spawn(move || node.incoming().for_each(drop));
        let reach = || {
            a.netns
                .run(|| {
                    TcpStream::connect_timeout(&"127.0.0.1:9999".parse().unwrap(), Duration::from_millis(500))
                })
                .unwrap()
        };
        a.netns
            .run(|| {
                run("ip", &["addr", "del", "127.0.0.1/8", "dev", "lo"]);
                run("sysctl", &["-qw", "net.ipv4.conf.all.route_localnet=1"]);
                run("ip", &["route", "add", "127.0.0.1", "via", "10.77.0.1"]);
            })
            .unwrap();
        assert!(reach().is_err());
        run("nft", &["flush", "chain", "inet", "berth_br_2da", "guard"]);
        assert!(reach().is_ok(), "it was the guard that kept the pod out");
    });
}
