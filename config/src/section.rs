//! The keys: one struct per subject. The doc comments are the words that the template prints.

mod define;

use define::section;
pub(crate) use define::{Key, Section, Table};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which cgroup driver this node uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// The answer given before while pods exist, else systemd if it is PID 1, else cgroupfs.
    #[default]
    Auto,
    /// Slices and scopes made by systemd.
    Systemd,
    /// Plain directories.
    Cgroupfs,
}

/// When layers go through a file on disk before they are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spool {
    /// Layers over 32 MiB.
    #[default]
    Auto,
    /// Every layer.
    Always,
    /// None: a broken download begins again.
    Never,
}

/// Who makes a pod's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// CNI if its directory holds a configuration, else built in.
    #[default]
    Auto,
    /// CNI plugins; NetworkReady is false until there is a configuration.
    Cni,
    /// The bridge of this daemon.
    Builtin,
    /// Loopback only.
    None,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are the words of every logger")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people and journald.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

section! {
    /// The socket that the kubelet and crictl use.
    Grpc {
        /// Path of the unix socket (mode 0660). Empty: berthd.sock in the state directory.
        socket: PathBuf = PathBuf::new();
        /// Group that may use the socket besides root.
        gid: u32 = 0;
        /// Calls that start, stop or pull something and may run at one time; more wait their turn.
        max_expensive: usize = 64;
        /// Calls that only look and may run at one time.
        max_cheap: usize = 256;
        /// Seconds that calls in flight may still take when the daemon is told to stop.
        drain_seconds: u64 = 10;
    }
}

section! {
    /// Control groups.
    Cgroup {
        /// auto, systemd or cgroupfs. auto: the answer given before while pods exist, else systemd if it is PID 1, else cgroupfs.
        driver: CgroupDriver = CgroupDriver::Auto;
    }
}

section! {
    /// The low-level runtime.
    Runtime {
        /// Path of berth-shim. Empty: beside this program, else in PATH.
        shim: PathBuf = PathBuf::new();
    }
}

section! {
    /// Pulling images.
    Image {
        /// Directory with <host>/hosts.toml: mirrors, certificates and headers for each registry.
        certs_dir: PathBuf = PathBuf::from("/etc/berth/certs.d");
        /// Layers of one image fetched and unpacked at one time.
        max_parallel_layers: usize = 4;
        /// auto, always or never: whether a layer goes through a file on disk, so that a broken download can go on. auto: layers over 32 MiB.
        spool: Spool = Spool::Auto;
    }
}

section! {
    /// Pod networks.
    Network {
        /// auto, cni, builtin or none. auto: cni if conf_dir holds a configuration, else builtin.
        mode: NetworkMode = NetworkMode::Auto;
    } with {
        /// Networks by CNI plugins.
        cni: CniNetwork,
        /// The built-in network: a bridge on this node.
        builtin: BuiltinNetwork,
    }
}

section! {
    /// Networks by CNI plugins.
    CniNetwork {
        /// Directory of the network configurations; the first by name counts.
        conf_dir: PathBuf = PathBuf::from("/etc/cni/net.d");
        /// Directories searched for plugins, in order.
        bin_dirs: Vec<PathBuf> = vec![PathBuf::from("/opt/cni/bin")];
        /// Seconds that one call of one plugin may take; past it the plugin is killed with what it started.
        plugin_seconds: u64 = 60;
    }
}

section! {
    /// The built-in network: a bridge on this node.
    BuiltinNetwork {
        /// Subnets that pods get their addresses from. The first address of each is the bridge's own.
        subnets: Vec<String> = vec!["10.88.0.0/16".to_owned()];
        /// Name of the bridge.
        bridge: String = "berth0".to_owned();
        /// Whether traffic to other places leaves under the node's address.
        masquerade: bool = true;
    }
}

section! {
    /// The daemon's own log, on stderr.
    Log {
        /// error, warn, info, debug or trace.
        level: LogLevel = LogLevel::Info;
        /// text or json.
        format: LogFormat = LogFormat::Text;
    }
}

section! {
    /// Where things live.
    Config {
        /// What must survive a reboot: images, containers' files, records.
        root: PathBuf = PathBuf::from("/var/lib/berth");
        /// What need not: sockets, bundles, pins.
        state: PathBuf = PathBuf::from("/run/berth");
    } with {
        /// The socket that the kubelet and crictl use.
        grpc: Grpc,
        /// Control groups.
        cgroup: Cgroup,
        /// The low-level runtime.
        runtime: Runtime,
        /// Pulling images.
        image: Image,
        /// Pod networks.
        network: Network,
        /// The daemon's own log, on stderr.
        log: Log,
    }
}

impl Config {
    /// The socket's path: the key, or berthd.sock in the state directory.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        if self.grpc.socket == Path::new("") {
            self.state.join("berthd.sock")
        } else {
            self.grpc.socket.clone()
        }
    }
}
