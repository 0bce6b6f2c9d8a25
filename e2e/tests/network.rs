//! Pod networks: the built-in bridge, the host's network, names, ways between pods and out.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context, Pod};
use berth_e2e::node::{NetworkMode, Settings};
use berth_e2e::{check, podspec, samples, tests};
use berth_proto::cri as wire;

tests![
    pods_reach_each_other,
    routes_and_gateway,
    host_network,
    names,
    addresses_come_back,
    no_network,
    leases_survive_churn,
    host_ports,
    taken_away_and_brought_back,
    cni_pods,
];

/// One GET with netcat: wget of a static busybox dies in the resolver.
fn get(address: &str, port: u16) -> String {
    format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} {port}")
}

async fn pods_reach_each_other(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    bed.registry.push("web", "1", &samples::web("reached\n")?);
    let image = bed.image("web:1");
    bed.cri().await?.pull(&image).await?;
    let server = bed.pod("server").await?;
    bed.start(&server, &podspec::container("web", &image, &[])).await?;
    let ip = bed.cri().await?.pod(&server.id).await?.network.context("no network")?.ip;
    let client = bed.pod("client").await?;
    let id = bed.busybox_in(&client, "c", "sleep 1000").await?;
    let page = bed.exec(&id, &get(&ip, 80)).await?;
    check!(page.ends_with("\nreached\n"), "{page:?}");
    let own = bed.exec(&id, &get("127.0.0.1", 80)).await;
    check!(own.is_err(), "the client's own loopback leads to the server: {own:?}");
    Ok(())
}

async fn routes_and_gateway(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("routes").await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    let gateway = bed.node.subnet().replace(".0/24", ".1");
    let routes = bed.exec(&id, "ip route").await?;
    check!(routes.contains(&format!("default via {gateway} dev eth0")), "{routes}");
    check!(bed.exec(&id, "ip link show lo").await?.contains("UP"), "loopback is down");
    // The host listens on the bridge: the gateway answers.
    let listener = tokio::net::TcpListener::bind((gateway.as_str(), 0)).await?;
    let port = listener.local_addr()?.port();
    let script = format!("nc {gateway} {port} </dev/null && echo met");
    let asking = bed.exec(&id, &script);
    let (met, from) = tokio::join!(asking, async { listener.accept().await.map(|(_, from)| from) });
    check!(met? == "met\n", "the gateway is not reached");
    let ip = bed.cri().await?.pod(&pod.id).await?.network.context("no network")?.ip;
    check!(from?.ip().to_string() == ip, "the host sees another address than {ip}");
    Ok(())
}

async fn host_network(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.run_pod(podspec::host_network(&bed.node, "on-host")).await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    let inner = bed.exec(&id, "ls -l /proc/self/ns/net | sed 's/.* //'").await?;
    let host = std::fs::read_link("/proc/self/ns/net")?.display().to_string();
    check!(inner.trim() == host, "not the host's network namespace");
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    check!(bed.exec(&id, "hostname").await? == name, "not the host's name");
    let status = bed.cri().await?.pod(&pod.id).await?;
    let ip = status.network.map(|network| network.ip).unwrap_or_default();
    check!(ip.is_empty(), "a pod in the host's network says {ip:?}: the kubelet wants none");
    Ok(())
}

async fn names(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let mut config = podspec::pod(&bed.node, "named");
    config.dns_config = Some(wire::DnsConfig {
        servers: vec!["10.96.0.10".to_owned()],
        searches: vec!["a.svc.test".to_owned(), "svc.test".to_owned()],
        options: vec!["ndots:5".to_owned()],
    });
    let pod = bed.run_pod(config).await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    let resolv = bed.exec(&id, "cat /etc/resolv.conf").await?;
    for line in ["nameserver 10.96.0.10", "search a.svc.test svc.test", "options ndots:5"] {
        check!(resolv.lines().any(|l| l == line), "{line:?} is not in {resolv:?}");
    }
    check!(bed.exec(&id, "hostname; cat /etc/hostname").await? == "named\nnamed\n", "hostname");
    let hosts = bed.exec(&id, "cat /etc/hosts").await?;
    check!(hosts.contains("127.0.0.1") && hosts.contains("localhost"), "{hosts:?}");
    let without = bed.pod("plain").await?;
    let id = bed.busybox_in(&without, "c", "sleep 1000").await?;
    let resolv = bed.exec(&id, "cat /etc/resolv.conf").await?;
    check!(resolv == std::fs::read_to_string("/etc/resolv.conf")?, "not the host's: {resolv:?}");
    Ok(())
}

/// A removed pod's address is free again, a stopped pod's network is gone.
async fn addresses_come_back(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let one = bed.pod("one").await?;
    let id = bed.busybox_in(&one, "c", "sleep 1000").await?;
    bed.cri().await?.stop_pod(&one.id).await?;
    let status = bed.ended(&id).await?;
    check!(status.exit_code == 137, "{status:?}");
    let pin = format!("/run/netns/berth-{}", &one.id[..32]);
    check!(!std::path::Path::new(&pin).exists(), "{pin} outlives StopPodSandbox");
    bed.cri().await?.stop_pod(&one.id).await?;
    bed.cri().await?.remove_pod(&one.id).await?;
    bed.cri().await?.remove_pod(&one.id).await?;
    Ok(())
}

async fn no_network(context: Context) -> Result<()> {
    let bed = context.bed_with(Settings::network(NetworkMode::None)).await?;
    let pod = bed.pod("quiet").await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    let links = bed.exec(&id, "ls /sys/class/net").await?;
    check!(links == "lo\n", "{links:?}");
    Ok(())
}

/// More pods one after the other than the subnet has addresses would show a lost lease; a few at once, a double one.
async fn leases_survive_churn(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    for round in 0..3 {
        let mut seen = std::collections::BTreeSet::new();
        let mut pods = Vec::new();
        for number in 0..6 {
            let pod = bed.pod(&format!("churn{round}-{number}")).await?;
            let ip = bed.cri().await?.pod(&pod.id).await?.network.context("no network")?.ip;
            check!(seen.insert(ip.clone()), "{ip} was given twice at one time");
            pods.push(pod);
        }
        for pod in pods {
            bed.cri().await?.stop_pod(&pod.id).await?;
            bed.cri().await?.remove_pod(&pod.id).await?;
        }
    }
    Ok(())
}

/// A pod with a page behind a host port; which one.
async fn served(bed: &Bed, page: &str) -> Result<(Pod, u16)> {
    bed.registry.push("web", "1", &samples::web(page)?);
    let image = bed.image("web:1");
    bed.cri().await?.pull(&image).await?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut config = podspec::pod(&bed.node, "ports");
    config.port_mappings = vec![wire::PortMapping {
        protocol: wire::Protocol::Tcp.into(),
        container_port: 80,
        host_port: i32::from(port),
        ..Default::default()
    }];
    let pod = bed.run_pod(config).await?;
    bed.start(&pod, &podspec::container("web", &image, &[])).await?;
    Ok((pod, port))
}

/// A firewall's reload flushes every table and somebody deletes the bridge: the next look at the node, or the next pod,
/// brings both back, for the pods that run as well.
async fn taken_away_and_brought_back(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let (_, port) = served(&bed, "still here\n").await?;
    let bridge = bed.node.tag().bridge();
    let gateway = bed.node.subnet().replace(".0/24", ".1");
    let table = format!("berth_{bridge}");
    let steps: [&[&[&str]]; 3] = [
        &[&["nft", "delete", "table", "inet", &table]],
        &[&["ip", "link", "delete", &bridge]],
        &[&["nft", "delete", "table", "inet", &table], &["ip", "link", "delete", &bridge]],
    ];
    for (number, taken) in steps.into_iter().enumerate() {
        for words in taken {
            let ended = tokio::process::Command::new(words[0]).args(&words[1..]).status().await?;
            check!(ended.success(), "{words:?}");
        }
        if number == 0 {
            bed.cri().await?.status(false).await?;
        }
        let other = bed.pod(&format!("other{number}")).await?;
        let id = bed.busybox_in(&other, "c", "sleep 1000").await?;
        let page = bed.exec(&id, &get(&gateway, port)).await?;
        check!(page.ends_with("\nstill here\n"), "after {taken:?}: {page:?}");
    }
    Ok(())
}

async fn host_ports(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let (_, port) = served(&bed, "by host port\n").await?;
    let other = bed.pod("other").await?;
    let id = bed.busybox_in(&other, "c", "sleep 1000").await?;
    let gateway = bed.node.subnet().replace(".0/24", ".1");
    let page = bed.exec(&id, &get(&gateway, port)).await?;
    check!(page.ends_with("\nby host port\n"), "from another pod: {page:?}");
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port));
    let met = tokio::time::timeout(std::time::Duration::from_secs(5), stream).await?;
    check!(met.is_ok(), "127.0.0.1:{port} of the host: {met:?}");
    Ok(())
}

/// The same over real CNI plugins: bridge, host-local, portmap.
async fn cni_pods(context: Context) -> Result<()> {
    let bed = context.bed_with(Settings::network(NetworkMode::Cni)).await?;
    let pod = bed.pod("plugged").await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    let ip = bed.cri().await?.pod(&pod.id).await?.network.context("no network")?.ip;
    check!(bed.exec(&id, "ip -4 addr show eth0").await?.contains(&ip), "{ip} is not on eth0");
    bed.node.remove_everything().await?;
    let leases = bed.node.dir().join("cni-leases").join(bed.node.tag().name());
    let left: Vec<String> = std::fs::read_dir(&leases)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("10."))
        .collect();
    check!(left.is_empty(), "host-local still holds {left:?}");
    // The plugin made the bridge; it stays, so it is the test's to remove.
    tokio::process::Command::new("ip").args(["link", "delete", &bed.node.tag().bridge()]).status().await?;
    Ok(())
}
