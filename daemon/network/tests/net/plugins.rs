//! CNI with the reference plugins, where the end-to-end tests' tools have been built; elsewhere these tests say so and
//! pass.

use std::fs;
use std::path::PathBuf;

use berth_network::pod::{PortMapping, Protocol};
use berth_network::settings::CniSettings;
use berth_network::{Attachment, Manager, Mode, Netns, PodNet, Settings};
use serde_json::{Value, json};

use crate::world::{NODE, World, call_from, run, serve, until, world};

fn with_plugins(test: impl FnOnce(&World, Manager) + Send + 'static) {
    let tools = std::env::var_os("BERTH_E2E_TOOLS").map(PathBuf::from);
    let cached = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.cache/tools");
    let bin = tools.unwrap_or_else(cached).join("cni");
    if !bin.join("host-local").exists() {
        eprintln!("skipped: no CNI plugins in {}", bin.display());
        return;
    }
    world(move |w| {
        fs::create_dir(w.path("net.d")).unwrap();
        let cni = CniSettings { conf_dir: w.path("net.d"), bin_dirs: vec![bin], ..CniSettings::default() };
        let manager =
            Manager::new(Settings { mode: Mode::Cni, cni, ..Settings::default() }, w.leases.clone());
        test(w, manager);
    });
}

/// Two families, IPv6 first; bandwidth is in the list though no pod asks for limits.
fn conf(w: &World) -> Value {
    let range = |subnet: &str| json!([{"subnet": subnet}]);
    json!({"cniVersion": "1.1.0", "name": "real", "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
         "ipam": {"type": "host-local", "dataDir": w.path("ipam"),
                  "ranges": [range("fd00:99::/64"), range("10.99.0.0/24")],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "bandwidth", "capabilities": {"bandwidth": true}},
    ]})
}

fn attach(w: &World, manager: &Manager, name: &str, ports: Vec<PortMapping>) -> (Netns, Attachment) {
    let (netns, pod) = w.pod(name);
    let planned = manager.plan(&PodNet { ports, ..pod }).unwrap();
    let attachment = manager.setup(&planned).unwrap();
    (netns, attachment)
}

fn leases(w: &World) -> Vec<String> {
    let files = fs::read_dir(w.path("ipam/real")).into_iter().flatten().flatten();
    let mut names: Vec<_> = files.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with("10.") || name.starts_with("fd00"));
    names.sort();
    names
}

#[test]
fn pods_live_on_the_reference_plugins() {
    with_plugins(|w, m| {
        fs::write(w.path("net.d/10.conflist"), conf(w).to_string()).unwrap();
        until("ready", || m.status().ready);
        let outside = w.outside();
        let port =
            PortMapping { protocol: Protocol::Tcp, host_port: 8080, container_port: 80, host_ip: None };
        let (net_a, a) = attach(w, &m, "a", vec![port]);
        let (net_b, b) = attach(w, &m, "b", vec![]);
        let addresses: Vec<_> = a.addresses().iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["fd00:99::2", "10.99.0.2"]);
        assert!(a.mac.is_some() && a.ips[1].gateway.unwrap().to_string() == "10.99.0.1");
        serve(&net_a, "a", "0.0.0.0:80");
        assert_eq!(call_from(&net_b, "10.99.0.2:80").as_deref(), Some("a 10.99.0.3"));
        assert_eq!(call_from(&outside, &format!("{NODE}:8080")).as_deref(), Some("a 192.0.2.2"));
        m.check(&a).unwrap();
        fs::remove_file(w.path("net.d/10.conflist")).unwrap();
        m.check(&b).unwrap();
        // One namespace goes before DEL, as at a restart of the node.
        drop(net_b);
        Netns::remove(&b.pod.netns).unwrap();
        for pod in [&a, &b, &a, &b] {
            m.teardown(pod).unwrap();
        }
        assert_eq!(leases(w), [""; 0]);
        assert_eq!(call_from(&outside, &format!("{NODE}:8080")), None);
    });
}

#[test]
fn gc_frees_what_no_record_knows_and_nothing_else() {
    with_plugins(|w, m| {
        fs::write(w.path("net.d/10.conflist"), conf(w).to_string()).unwrap();
        let (_net_a, a) = attach(w, &m, "a", vec![]);
        let (_net_b, _lost) = attach(w, &m, "b", vec![]);
        assert_eq!(leases(w).len(), 4);
        m.gc(std::slice::from_ref(&a)).unwrap();
        assert_eq!(leases(w), ["10.99.0.2", "fd00:99::2"]);
        m.check(&a).unwrap();
    });
}

#[test]
fn a_failed_add_is_undone_by_del_of_the_plan() {
    with_plugins(|w, m| {
        let mut broken = conf(w);
        broken["plugins"][1] = json!({"type": "portmap", "snat": "no boolean"});
        fs::write(w.path("net.d/10.conflist"), broken.to_string()).unwrap();
        let (netns, pod) = w.pod("a");
        let planned = m.plan(&pod).unwrap();
        let error = m.setup(&planned).unwrap_err().to_string();
        assert!(error.contains("portmap"), "{error}");
        assert_eq!(leases(w).len(), 2);
        // portmap cannot read its configuration at DEL either, so only a repaired one gets through.
        assert!(m.teardown(&planned).is_err());
        drop(netns);
        let mut repaired = m.plan(&pod).unwrap();
        if let berth_network::attachment::By::Cni(record) = &mut repaired.by {
            record.config = conf(w).to_string();
        }
        m.teardown(&repaired).unwrap();
        assert_eq!(leases(w), [""; 0]);
        assert!(run("ip", &["-br", "link"]).contains("cni0"));
    });
}
