//! Whether the network is ready, by the plugins' own word, without ever waiting for them long.
//!
//! STATUS is run in the background, one run at a time; callers get the last answer. A new configuration is asked
//! about at once, a known one every few seconds.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::CniError;
use super::config::Network;
use super::plugin::Call;
use super::version::Version;
use crate::settings::CniSettings;

/// How old a good answer may be before it is asked for again.
const FRESH: Duration = Duration::from_secs(10);
/// And a bad one, so that a node comes back soon.
const FRESH_PROBLEM: Duration = Duration::from_secs(2);
/// How long the very first answer is waited for.
const FIRST: Duration = Duration::from_millis(500);

/// What plugins said last.
#[derive(Debug, Clone)]
struct Answer {
    network: Arc<Network>,
    problem: Option<String>,
    at: Instant,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Answer>,
    running: bool,
}

/// The last answer and who is getting the next.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    state: Mutex<State>,
    answered: Condvar,
}

/// What is known about a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    Ready,
    Problem(String),
    /// Nothing was ever answered.
    Waiting,
}

impl Watcher {
    /// What is known; starts a run if that is old.
    pub(super) fn ask(self: &Arc<Self>, settings: &CniSettings, network: &Arc<Network>) -> Known {
        let mut state = self.state();
        let fresh = |a: &Answer| {
            let limit = if a.problem.is_some() { FRESH_PROBLEM } else { FRESH };
            a.network == *network && a.at.elapsed() < limit
        };
        if !state.last.as_ref().is_some_and(fresh) && !state.running {
            state.running = self.start(settings, network);
        }
        if state.last.is_none() {
            let waited = self.answered.wait_timeout_while(state, FIRST, |s| s.last.is_none() && s.running);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match &state.last {
            None => Known::Waiting,
            Some(Answer { problem: None, .. }) => Known::Ready,
            Some(Answer { problem: Some(why), .. }) => Known::Problem(why.clone()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, settings: &CniSettings, network: &Arc<Network>) -> bool {
        let (watcher, settings, network) = (self.clone(), settings.clone(), network.clone());
        let run = move || {
            let problem = run(&settings, &network).err().map(|e| berth_core::error::chain(&e));
            let mut state = watcher.state();
            state.last = Some(Answer { network, problem, at: Instant::now() });
            state.running = false;
            watcher.answered.notify_all();
        };
        std::thread::Builder::new().name("cni-status".into()).spawn(run).is_ok()
    }
}

/// Before 1.1 there is no STATUS: then the plugins must be there, and no more can be known.
fn run(settings: &CniSettings, network: &Network) -> Result<(), CniError> {
    let call = Call { settings, network, verb: "STATUS", pod: None };
    for plugin in &network.plugins {
        call.find(&plugin.kind)?;
        speaks(&call, plugin)?;
        if network.version.has_status() {
            call.plugin(plugin, None)?;
        }
    }
    Ok(())
}

/// Asks a plugin for its versions. One that does not answer is not blamed here: ADD will tell.
fn speaks(call: &Call<'_>, plugin: &super::config::Plugin) -> Result<(), CniError> {
    let version = Call { verb: "VERSION", ..*call };
    let Ok(said) = version.plugin(plugin, None) else { return Ok(()) };
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap_or_default();
    let Some(listed) = said.get("supportedVersions").and_then(|v| v.as_array()) else { return Ok(()) };
    let listed: Vec<&str> = listed.iter().filter_map(|v| v.as_str()).collect();
    let wanted = call.network.version;
    if listed.is_empty() || listed.iter().any(|text| Version::parse(text) == Some(wanted)) {
        return Ok(());
    }
    Err(CniError::Plugin {
        plugin: plugin.kind.clone(),
        verb: "VERSION",
        network: call.network.name.clone(),
        code: 1,
        message: format!("it speaks {} and not {wanted}", listed.join(", ")),
        stderr: String::new(),
    })
}
