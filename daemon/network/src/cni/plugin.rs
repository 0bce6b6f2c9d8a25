//! One call of one plugin: found, configured, run, and its answer judged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde_json::{Map, Value};

use super::config::{Network, Plugin};
use super::exec::{self, Done};
use super::result::{self, Json};
use super::{CniError, capability};
use crate::faults;
use crate::netns::Netns;
use crate::pod::PodNet;
use crate::settings::CniSettings;

/// How much of a plugin's stderr goes into an error.
const TELL: usize = 2000;

/// Who is calling for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) settings: &'a CniSettings,
    pub(super) network: &'a Network,
    pub(super) verb: &'static str,
    /// None for verbs about the network as a whole.
    pub(super) pod: Option<(&'a PodNet, &'a str)>,
}

impl Call<'_> {
    /// Calls a plugin; its stdout on success.
    pub(super) fn plugin(&self, plugin: &Plugin, previous: Option<&Json>) -> Result<Vec<u8>, CniError> {
        self.plugin_with(plugin, previous, Map::new())
    }

    /// Calls a plugin with more keys in its configuration.
    pub(super) fn plugin_with(
        &self,
        plugin: &Plugin,
        previous: Option<&Json>,
        more: Map<String, Value>,
    ) -> Result<Vec<u8>, CniError> {
        if self.pod.is_some() {
            faults::PLUGIN.pass()?;
        }
        let binary = self.find(&plugin.kind)?;
        let stdin = self.configure(plugin, previous, more).to_string();
        let env = self.environment()?;
        let started = std::time::Instant::now();
        let done = exec::run(&binary, &env, stdin.as_bytes(), self.settings.deadline)
            .map_err(|source| CniError::Run { plugin: plugin.kind.clone(), source })?;
        tracing::debug!(
            plugin = plugin.kind, verb = self.verb, network = self.network.name,
            ms = started.elapsed().as_millis() as u64, status = ?done.status, "CNI plugin ended"
        );
        self.judge(plugin, done)
    }

    /// The plugin's binary: the first executable file of its name.
    pub(super) fn find(&self, kind: &str) -> Result<PathBuf, CniError> {
        let dirs = &self.settings.bin_dirs;
        let found = dirs.iter().map(|dir| dir.join(kind)).find(|path| is_executable(path));
        found.ok_or_else(|| CniError::PluginMissing {
            plugin: kind.to_owned(),
            network: self.network.name.clone(),
            dirs: dirs.iter().map(|d| d.display().to_string()).collect::<Vec<_>>().join(", "),
        })
    }

    fn configure(&self, plugin: &Plugin, previous: Option<&Json>, more: Map<String, Value>) -> Value {
        let mut conf = plugin.conf.clone();
        conf.insert("name".into(), self.network.name.clone().into());
        conf.insert("cniVersion".into(), self.network.version.to_string().into());
        if let Some((pod, _)) = self.pod {
            let mut arguments = capability::arguments(pod);
            arguments.retain(|name, _| plugin.wants(name));
            if !arguments.is_empty() {
                conf.insert("runtimeConfig".into(), arguments.into());
            }
        }
        if let Some(previous) = previous {
            conf.insert("prevResult".into(), previous.clone().into());
        }
        conf.extend(more);
        conf.into()
    }

    fn environment(&self) -> Result<Vec<(&'static str, String)>, CniError> {
        let dirs: Vec<_> = self.settings.bin_dirs.iter().map(|d| d.display().to_string()).collect();
        let mut env = vec![("CNI_COMMAND", self.verb.to_owned()), ("CNI_PATH", dirs.join(":"))];
        if let Some((pod, interface)) = self.pod {
            // Of a namespace that has gone, the specification wants nothing told.
            let there = self.verb != "DEL" || Netns::is_pinned(&pod.netns);
            let netns = if there { pod.netns.display().to_string() } else { String::new() };
            env.push(("CNI_CONTAINERID", pod.sandbox.clone()));
            env.push(("CNI_NETNS", netns));
            env.push(("CNI_IFNAME", interface.to_owned()));
            env.push(("CNI_ARGS", capability::cni_args(pod)?));
        }
        Ok(env)
    }

    fn judge(&self, plugin: &Plugin, done: Done) -> Result<Vec<u8>, CniError> {
        let (kind, network) = (plugin.kind.clone(), self.network.name.clone());
        let stderr = tail(&done.stderr);
        let Some(status) = done.status else {
            let limit = self.settings.deadline;
            return Err(CniError::Deadline { plugin: kind, verb: self.verb, network, limit, stderr });
        };
        if status.success() {
            return Ok(done.stdout);
        }
        let (code, message) = result::error(&done.stdout).unwrap_or_else(|| (0, ended(status, &done.stdout)));
        Err(CniError::Plugin { plugin: kind, verb: self.verb, network, code, message, stderr })
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn ended(status: ExitStatus, stdout: &[u8]) -> String {
    let said = String::from_utf8_lossy(stdout);
    match said.trim() {
        "" => status.to_string(),
        said => format!("{status}, it printed {:?}", said.chars().take(200).collect::<String>()),
    }
}

/// The end of what a plugin wrote to stderr, ready to be appended to a message.
fn tail(stderr: &[u8]) -> String {
    let start = stderr.len().saturating_sub(TELL);
    let text = String::from_utf8_lossy(&stderr[start..]);
    match text.trim() {
        "" => String::new(),
        text => format!("; stderr: {text}"),
    }
}
