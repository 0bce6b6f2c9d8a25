//! CNI 1.1 by executing plugins.
//!
//! Nothing is looked up twice: an attachment carries its configuration and its result, so DEL and CHECK work when
//! the file has changed or gone, and after any restart.

mod capability;
mod catalog;
mod config;
mod error;
mod exec;
pub mod leftover;
mod orphan;
mod plugin;
mod result;
mod status;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::attachment::{Attachment, By, CniRecord, PodIp};
use crate::pod::PodNet;
use crate::settings::CniSettings;
use crate::status::NetworkStatus;

use catalog::Catalog;
use config::{Network, Plugin};
pub use error::CniError;
use plugin::Call;
use result::Json;
use status::{Known, Watcher};

/// What ADD gave.
#[derive(Debug, Clone)]
pub struct Added {
    /// Addresses in the order of the result.
    pub ips: Vec<PodIp>,
    /// Hardware address of the pod's interface.
    pub mac: Option<String>,
    /// The result, as JSON.
    pub raw: String,
}

/// Networks made by plugins.
#[derive(Debug)]
pub struct Cni {
    settings: CniSettings,
    catalog: Catalog,
    watcher: Arc<Watcher>,
}

impl Cni {
    /// Reads nothing yet.
    pub fn new(settings: CniSettings) -> Self {
        let catalog = Catalog::new(settings.conf_dir.clone());
        Self { settings, catalog, watcher: Arc::default() }
    }

    /// Whether somebody wants CNI here: a configuration is there, be it usable or not. A mistyped file must not send
    /// pods to another network.
    pub fn configured(&self) -> bool {
        let view = self.catalog.view();
        view.network.is_some() || !view.skipped.is_empty()
    }

    /// The configuration that a new pod would get.
    pub fn plan(&self) -> Result<CniRecord, CniError> {
        let view = self.catalog.view();
        let Some((file, network)) = view.network else {
            return Err(CniError::NoConfig {
                dir: self.catalog.dir().to_owned(),
                why: none_because(&view.skipped),
            });
        };
        Ok(CniRecord {
            network: network.name.clone(),
            file: file.display().to_string(),
            config: network.text.clone(),
            result: None,
        })
    }

    /// ADD, through the whole list; each plugin gets the result of the one before.
    pub fn add(&self, pod: &PodNet, record: &CniRecord, interface: &str) -> Result<Added, CniError> {
        let network = saved(record)?;
        let call = self.call("ADD", &network, pod, interface)?;
        let mut result: Option<Json> = None;
        for plugin in &network.plugins {
            let bad =
                |why| CniError::Result { plugin: plugin.kind.clone(), network: network.name.clone(), why };
            let stdout = call.plugin(plugin, result.as_ref())?;
            result = Some(result::parse(&stdout, network.version).map_err(bad)?);
        }
        let result = result.unwrap_or_default();
        let bad = |why| CniError::Result { plugin: "*".into(), network: network.name.clone(), why };
        let ips = result::addresses(&result, interface).map_err(bad)?;
        if ips.is_empty() {
            return Err(CniError::NoAddress { network: network.name });
        }
        let mac = result::mac(&result, interface);
        Ok(Added { ips, mac, raw: Value::Object(result).to_string() })
    }

    /// DEL, through the whole list in reverse. A plugin that is missing does not keep the others from their work.
    pub fn del(&self, pod: &PodNet, record: &CniRecord, interface: &str) -> Result<(), CniError> {
        let network = saved(record)?;
        let call = self.call("DEL", &network, pod, interface)?;
        let previous = previous(record)?.filter(|_| network.version.has_check());
        let mut missing = None;
        for plugin in network.plugins.iter().rev() {
            match call.plugin(plugin, previous.as_ref()) {
                Ok(_) => {}
                Err(e @ CniError::PluginMissing { .. }) => missing = missing.or(Some(e)),
                Err(e) => return Err(e),
            }
        }
        missing.map_or(Ok(()), Err)
    }

    /// Ends plugins that an earlier daemon started for these attachments and that still run.
    pub fn end_orphans(&self, all: &[Attachment]) {
        let ours = all.iter().filter(|attachment| matches!(attachment.by, By::Cni(_)));
        let sandboxes: BTreeSet<&str> = ours.map(|attachment| attachment.pod.sandbox.as_str()).collect();
        if !sandboxes.is_empty() {
            orphan::end(&sandboxes);
        }
    }

    /// CHECK, through the whole list; a success where the network has none.
    pub fn check(&self, pod: &PodNet, record: &CniRecord, interface: &str) -> Result<(), CniError> {
        let network = saved(record)?;
        let previous = previous(record)?;
        if network.disable_check || !network.version.has_check() || previous.is_none() {
            return Ok(());
        }
        let call = self.call("CHECK", &network, pod, interface)?;
        network.plugins.iter().try_for_each(|plugin| call.plugin(plugin, previous.as_ref()).map(drop))
    }

    /// GC of every network that has attachments or is configured. All plugins are called, the first failure is told.
    pub fn gc(&self, all: &[Attachment]) -> Result<(), CniError> {
        let mut networks: BTreeMap<String, (Network, Vec<Value>)> = BTreeMap::new();
        if let Some((_, network)) = self.catalog.view().network {
            networks.insert(network.name.clone(), (Network::clone(&network), Vec::new()));
        }
        for attachment in all {
            let By::Cni(record) = &attachment.by else { continue };
            let network = saved(record)?;
            let entry = networks.entry(network.name.clone()).or_insert_with(|| (network, Vec::new()));
            entry.1.push(json!({"containerID": attachment.pod.sandbox, "ifname": attachment.interface}));
        }
        let mut failed = None;
        for (network, valid) in networks.into_values() {
            if let Err(e) = self.gc_network(&network, valid) {
                tracing::warn!(network = network.name, error = %e, "CNI GC failed");
                failed = failed.or(Some(e));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn gc_network(&self, network: &Network, valid: Vec<Value>) -> Result<(), CniError> {
        if network.disable_gc || !network.version.has_status() {
            return Ok(());
        }
        let call = Call { settings: &self.settings, network, verb: "GC", pod: None };
        // The first key is the specification's; the second is what it said before a correction.
        let keys = ["cni.dev/valid-attachments", "cni.dev/attachments"];
        let more = Map::from_iter(keys.map(|key| (key.to_owned(), Value::Array(valid.clone()))));
        let ends: Vec<_> =
            network.plugins.iter().map(|plugin| call.plugin_with(plugin, None, more.clone())).collect();
        // The reference plugins do not pass GC on to their address plugin as they should, and that is where
        // addresses leak. It may hear of it twice, or not know the verb, which is no failure.
        for ipam in network.plugins.iter().filter_map(Plugin::ipam) {
            if let Err(e) = call.plugin_with(&ipam, None, more.clone()) {
                tracing::debug!(network = network.name, error = %e, "CNI GC of an address plugin failed");
            }
        }
        ends.into_iter().try_for_each(|end| end.map(drop))
    }

    /// The answer to STATUS as last heard. Never waits for plugins, except half a second for the very first answer.
    pub fn status(&self) -> NetworkStatus {
        let view = self.catalog.view();
        let mut status = match &view.network {
            None => NetworkStatus::not_ready(
                "NetworkPluginNotReady",
                format!(
                    "no CNI configuration in {}: {}",
                    self.catalog.dir().display(),
                    none_because(&view.skipped)
                ),
            ),
            Some((file, network)) => match self.watcher.ask(&self.settings, network) {
                Known::Ready => {
                    NetworkStatus::ready(format!("CNI network {} of {}", network.name, file.display()))
                }
                Known::Problem(why) => NetworkStatus::not_ready("NetworkPluginNotReady", why),
                Known::Waiting => NetworkStatus::not_ready(
                    "NetworkStatusUnknown",
                    format!("the plugins of CNI network {} have not answered STATUS yet", network.name),
                ),
            },
        };
        status.skipped = view.skipped;
        status
    }

    fn call<'a>(
        &'a self,
        verb: &'static str,
        network: &'a Network,
        pod: &'a PodNet,
        interface: &'a str,
    ) -> Result<Call<'a>, CniError> {
        if !config::is_word(&pod.sandbox) {
            return Err(CniError::Argument { what: "sandbox id", value: pod.sandbox.clone() });
        }
        Ok(Call { settings: &self.settings, network, verb, pod: Some((pod, interface)) })
    }
}

fn saved(record: &CniRecord) -> Result<Network, CniError> {
    config::parse(&record.config).map_err(|why| CniError::Config { file: record.file.clone(), why })
}

fn previous(record: &CniRecord) -> Result<Option<Json>, CniError> {
    let Some(text) = &record.result else { return Ok(None) };
    let parsed = serde_json::from_str(text).map(Some);
    parsed.map_err(|e| CniError::Config { file: record.file.clone(), why: format!("saved result: {e}") })
}

fn none_because(skipped: &[String]) -> String {
    if skipped.is_empty() { "it holds no .conflist, .conf or .json file".into() } else { skipped.join("; ") }
}
