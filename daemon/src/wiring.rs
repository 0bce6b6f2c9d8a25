//! From configuration keys to the settings of the crates below.

use anyhow::Context;
use berth_config::{CniNetwork, NetworkMode, Runtime, Spool};
use berth_image::Options;
use berth_network::settings::{BuiltinSettings, CniSettings, Settings};
use berth_network::{Mode, Subnet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where network namespaces are pinned. Others (Multus, Cilium, Istio) expect them there.
pub const NETNS_DIR: &str = "/run/netns";

/// The network's settings.
///
/// # Errors
/// A subnet that cannot be read.
pub fn network(config: &berth_config::Network) -> anyhow::Result<Settings> {
    let mode = match config.mode {
        NetworkMode::Auto => Mode::Auto,
        NetworkMode::Cni => Mode::Cni,
        NetworkMode::Builtin => Mode::Builtin,
        NetworkMode::None => Mode::None,
    };
    let subnets = config.builtin.subnets.iter().map(|text| Subnet::parse(text));
    let builtin = BuiltinSettings {
        bridge: config.builtin.bridge.clone(),
        subnets: subnets.collect::<Result<_, _>>().context("network.builtin.subnets")?,
        masquerade: config.builtin.masquerade,
        ..BuiltinSettings::default()
    };
    Ok(Settings { mode, cni: cni(&config.cni), builtin })
}

fn cni(config: &CniNetwork) -> CniSettings {
    CniSettings {
        conf_dir: config.conf_dir.clone(),
        bin_dirs: config.bin_dirs.clone(),
        deadline: Duration::from_secs(config.plugin_seconds),
    }
}

/// The puller's settings.
#[must_use]
pub fn puller(config: &berth_config::Image) -> Options {
    Options {
        certs_dir: config.certs_dir.clone(),
        max_parallel_layers: config.max_parallel_layers,
        spool: match config.spool {
            Spool::Auto => berth_image::pull::Spool::Auto,
            Spool::Always => berth_image::pull::Spool::Always,
            Spool::Never => berth_image::pull::Spool::Never,
        },
        ..Options::default()
    }
}

/// The shim's binary, opened so that nobody can change it under running pods.
///
/// # Errors
/// It is nowhere to be found, or cannot be opened.
pub fn shim(config: &Runtime) -> anyhow::Result<OwnedFd> {
    let path = shim_path(config)?;
    berth_sys::sealed_exe(&path).with_context(|| format!("open {}", path.display()))
}

fn shim_path(config: &Runtime) -> anyhow::Result<PathBuf> {
    if config.shim != Path::new("") {
        return Ok(config.shim.clone());
    }
    let own = std::env::current_exe().context("find this program's own path")?;
    let beside = own.with_file_name("berth-shim");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere = std::env::split_paths(&path).map(|dir| dir.join("berth-shim"));
    let found = std::iter::once(beside.clone()).chain(elsewhere).find(|path| path.is_file());
    found.with_context(|| format!("berth-shim is neither {} nor in PATH: set runtime.shim", beside.display()))
}
