//! What a node can be, and the configuration files that say so.

use super::Node;
use crate::paths;
use std::fs;

/// Which daemon runs on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// The product.
    Berth,
    /// containerd with runc, for comparison, and to try tests on something known.
    Containerd,
}

impl Runtime {
    /// The product, unless `BERTH_E2E_RUNTIME=containerd` asks to try the tests on containerd.
    pub fn from_env() -> Self {
        match std::env::var("BERTH_E2E_RUNTIME").as_deref() {
            Ok("containerd") => Self::Containerd,
            _ => Self::Berth,
        }
    }
}

/// What containerd runs its containers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowLevel {
    /// Its own shim and runc.
    Runc,
    /// The product as containerd's shim.
    BerthShim,
    /// Its own shim, and the product in runc's place.
    BerthOci,
}

/// Where pods get their network from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkMode {
    /// The product's own bridge.
    Builtin,
    /// CNI plugins: bridge, host-local, portmap.
    Cni,
    /// Loopback only.
    None,
}

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which daemon.
    pub runtime: Runtime,
    /// Of a node with containerd: what it runs containers with.
    pub low_level: LowLevel,
    /// Which network.
    pub network: NetworkMode,
    /// Further lines at the top of the daemon's configuration.
    pub extra_config: String,
    /// Further arguments of the daemon.
    pub extra_args: Vec<String>,
    /// Log at the level of a production node, for benchmarks.
    pub quiet: bool,
    /// A program and arguments that the daemon is started through, such as `taskset -c 0`.
    pub wrapper: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            runtime: Runtime::from_env(),
            low_level: LowLevel::Runc,
            network: NetworkMode::Builtin,
            extra_config: String::new(),
            extra_args: Vec::new(),
            quiet: false,
            wrapper: Vec::new(),
        }
    }
}

impl LowLevel {
    /// The runtime's name for containerd.
    pub fn name(self) -> &'static str {
        match self {
            Self::BerthShim => "io.containerd.berth.v1",
            Self::Runc | Self::BerthOci => "io.containerd.runc.v2",
        }
    }
}

impl Settings {
    /// containerd with one or the other low-level runtime.
    pub fn containerd(low_level: LowLevel) -> Self {
        Self { runtime: Runtime::Containerd, low_level, ..Self::default() }
    }

    /// The usual settings with another network.
    pub fn network(network: NetworkMode) -> Self {
        Self { network, ..Self::default() }
    }
}

impl Node {
    /// The daemon's configuration file.
    pub fn config_path(&self) -> std::path::PathBuf {
        self.dir.join("config.toml")
    }

    /// Writes the daemon's configuration and, for CNI, the network's.
    pub(super) fn write_config(&self) -> anyhow::Result<()> {
        let text = match self.settings.runtime {
            Runtime::Berth => self.berth_config(),
            Runtime::Containerd => self.containerd_config()?,
        };
        fs::write(self.config_path(), text)?;
        let builtin_elsewhere =
            self.settings.runtime == Runtime::Containerd && self.settings.network == NetworkMode::Builtin;
        if self.settings.network == NetworkMode::Cni || builtin_elsewhere {
            fs::write(self.dir.join("cni/10-e2e.conflist"), self.conflist())?;
        }
        Ok(())
    }

    fn berth_config(&self) -> String {
        let mode = match self.settings.network {
            NetworkMode::Builtin => "builtin",
            NetworkMode::Cni => "cni",
            NetworkMode::None => "none",
        };
        let dir = self.dir.display();
        let plugins = paths::tools().join("cni");
        let (bridge, subnet) = (self.tag.bridge(), &self.subnet);
        format!(
            "{extra}\n[cgroup]\ndriver = \"cgroupfs\"\n\n[image]\ncerts_dir = \"{dir}/certs.d\"\n\n\
             [network]\nmode = \"{mode}\"\n\n[network.cni]\nconf_dir = \"{dir}/cni\"\n\
             bin_dirs = [\"{plugins}\"]\n\n[network.builtin]\nbridge = \"{bridge}\"\nsubnets = [\"{subnet}\"]\n",
            extra = self.settings.extra_config,
            plugins = plugins.display(),
        )
    }

    fn containerd_config(&self) -> anyhow::Result<String> {
        let dir = self.dir.display();
        let plugins = paths::tools().join("cni");
        Ok(format!(
            "version = 3\nroot = \"{dir}/root\"\nstate = \"{dir}/state\"\n\
             disabled_plugins = [\"io.containerd.nri.v1.nri\"]\n[grpc]\naddress = \"{dir}/state/berthd.sock\"\n\
             [plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = \"{dir}/certs.d\"\n\
             [plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = \"registry.k8s.io/pause:3.10\"\n\
             [plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n\
             [plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = [\"{plugins}\"]\nconf_dir = \"{dir}/cni\"\n\
             {low_level}",
            plugins = plugins.display(),
            low_level = self.low_level()?,
        ))
    }

    /// The default runtime of containerd. For the product as its shim it is what an administrator writes: a runtime of its own,
    /// since the one called runc has options that containerd gives to no other type.
    fn low_level(&self) -> anyhow::Result<String> {
        let all = "plugins.'io.containerd.cri.v1.runtime'.containerd";
        let table = format!("{all}.runtimes.runc");
        let binary = match self.settings.low_level {
            LowLevel::BerthShim => {
                return Ok(format!(
                    "[{all}]\ndefault_runtime_name = \"berth\"\n[{all}.runtimes.berth]\nruntime_type = \"{}\"\n",
                    self.settings.low_level.name()
                ));
            }
            LowLevel::Runc => paths::peer("runc")?,
            LowLevel::BerthOci => self.dir.join("bin/berth-oci"),
        };
        Ok(format!(
            "[{table}]\nruntime_type = \"{name}\"\n[{table}.options]\nBinaryName = \"{binary}\"\nSystemdCgroup = false\n",
            name = self.settings.low_level.name(),
            binary = binary.display(),
        ))
    }

    /// The names under which foreign callers find the product, first in the daemon's PATH.
    pub(super) fn write_names(&self) -> anyhow::Result<()> {
        let folder = self.dir.join("bin");
        fs::create_dir_all(&folder)?;
        if self.settings.low_level != LowLevel::Runc {
            let shim = paths::product("berth-shim")?;
            for name in ["containerd-shim-berth-v1", "berth-oci"] {
                std::os::unix::fs::symlink(&shim, folder.join(name))?;
            }
        }
        Ok(())
    }

    /// bridge + host-local + portmap, as on many nodes.
    fn conflist(&self) -> String {
        let ipam = serde_json::json!({
            "type": "host-local", "dataDir": self.dir.join("cni-leases"),
            "ranges": [[{ "subnet": self.subnet.to_string() }]], "routes": [{ "dst": "0.0.0.0/0" }],
        });
        let bridge = serde_json::json!({
            "type": "bridge", "bridge": self.tag.bridge(), "isGateway": true, "ipMasq": false, "ipam": ipam,
        });
        let portmap = serde_json::json!({ "type": "portmap", "capabilities": { "portMappings": true } });
        let name = self.tag.name();
        serde_json::json!({ "cniVersion": "1.1.0", "name": name, "plugins": [bridge, portmap] }).to_string()
    }
}
