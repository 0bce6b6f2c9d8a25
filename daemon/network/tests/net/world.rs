//! A node of its own per test: a thread with its own network and mount namespaces, pods, and an outside.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_network::pod::PortMapping;
use berth_network::settings::{BuiltinSettings, CniSettings};
use berth_network::{Attachment, Manager, MemoryLeases, Mode, Netns, PodNet, Settings, Subnet};
use rustix::thread::UnshareFlags;

/// The address of the node on its uplink; the outside is the next one.
pub(crate) const NODE: &str = "192.0.2.1";
pub(crate) const OUTSIDE: &str = "192.0.2.2";

/// A node.
pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) leases: Arc<MemoryLeases>,
}

/// Runs a test on a node of its own.
pub(crate) fn world(test: impl FnOnce(&World) + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let node = std::thread::spawn(|| {
        #[expect(deprecated, reason = "unsafe only for CLONE_FILES")]
        rustix::thread::unshare(UnshareFlags::NEWNET | UnshareFlags::NEWNS).unwrap();
        let private =
            rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).unwrap();
        run("ip", &["link", "set", "lo", "up"]);
        test(&World { dir: tempfile::tempdir().unwrap(), leases: Arc::default() });
    });
    if let Err(panic) = node.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs a command of the node and gives what it printed; panics if it fails.
pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let done = Command::new(program).args(args).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{program} {args:?}: {out}{err}");
    out.into_owned()
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl World {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A manager of the built-in network with a bridge and subnets.
    pub(crate) fn builtin(&self, bridge: &str, subnets: &[&str]) -> Manager {
        let subnets = subnets.iter().map(|s| Subnet::parse(s).unwrap()).collect();
        let builtin = BuiltinSettings { bridge: bridge.into(), subnets, ..BuiltinSettings::default() };
        let cni = CniSettings { conf_dir: self.path("net.d"), ..CniSettings::default() };
        Manager::new(Settings { mode: Mode::Builtin, cni, builtin }, self.leases.clone())
    }

    /// A namespace and what a pod of that name asks for.
    pub(crate) fn pod(&self, name: &str) -> (Netns, PodNet) {
        let netns = Netns::create(&self.path(name)).unwrap();
        let id = name.bytes().map(|b| format!("{b:02x}")).collect::<String>();
        let pod = PodNet {
            sandbox: format!("{id:0<64}"),
            namespace: "default".into(),
            name: name.into(),
            uid: format!("uid-{name}"),
            netns: self.path(name),
            ..PodNet::default()
        };
        (netns, pod)
    }

    /// A pod that is on the network.
    pub(crate) fn attached(&self, manager: &Manager, name: &str, ports: Vec<PortMapping>) -> Pod {
        let (netns, pod) = self.pod(name);
        let planned = manager.plan(&PodNet { ports, ..pod }).unwrap();
        let attachment = manager.setup(&planned).unwrap();
        Pod { netns, attachment }
    }

    /// Another host, one hop away, which knows no way to any pod.
    pub(crate) fn outside(&self) -> Netns {
        let path = self.path("outside");
        let outside = Netns::create(&path).unwrap();
        let pin = path.to_str().unwrap();
        run("ip", &["link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", pin]);
        run("ip", &["addr", "add", &format!("{NODE}/24"), "dev", "up0"]);
        run("ip", &["-6", "addr", "add", "2001:db8::1/64", "dev", "up0", "nodad"]);
        run("ip", &["link", "set", "up0", "up"]);
        outside
            .run(|| {
                run("ip", &["addr", "add", &format!("{OUTSIDE}/24"), "dev", "eth0"]);
                run("ip", &["-6", "addr", "add", "2001:db8::2/64", "dev", "eth0", "nodad"]);
                run("ip", &["link", "set", "eth0", "up"]);
            })
            .unwrap();
        outside
    }
}

/// A pod on the network.
pub(crate) struct Pod {
    pub(crate) netns: Netns,
    pub(crate) attachment: Attachment,
}

impl Pod {
    pub(crate) fn ip(&self) -> IpAddr {
        self.attachment.ips[0].address
    }

    pub(crate) fn path(&self) -> &Path {
        self.netns.path()
    }
}

/// A server in a namespace that tells each caller its own name and the caller's address.
pub(crate) fn serve(netns: &Netns, name: &'static str, address: &str) {
    let listener = netns.run(|| TcpListener::bind(address).unwrap()).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let peer = stream.peer_addr().unwrap().ip();
            let _ = write!(stream, "{name} {peer}");
        }
    });
}

/// Calls a server from the namespace of this thread; none if it cannot be reached.
pub(crate) fn call(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    Some(said)
}

/// Calls a server from another namespace.
pub(crate) fn call_from(netns: &Netns, address: &str) -> Option<String> {
    let address: SocketAddr = address.parse().unwrap();
    netns.run(|| call(address)).unwrap()
}
