//! One door to the network: it decides who attaches a pod and keeps the order that survives a crash.

use std::sync::Arc;

use crate::attachment::{Attachment, By};
use crate::builtin::Builtin;
use crate::cni::Cni;
use crate::error::NetworkError;
use crate::faults;
use crate::leases::Leases;
use crate::netns::Netns;
use crate::pod::PodNet;
use crate::settings::{Mode, Settings};
use crate::status::NetworkStatus;

/// The interface that plugins and the built-in network give a pod.
pub const POD_INTERFACE: &str = "eth0";

/// Attaches pods to the network. Safe to call from many threads at once; different pods do not wait for each
/// other's plugins.
pub struct Manager {
    mode: Mode,
    builtin: Builtin,
    cni: Cni,
}

impl Manager {
    /// Touches nothing yet: bridge and rules are made with the first pod.
    pub fn new(settings: Settings, leases: Arc<dyn Leases>) -> Self {
        Self {
            mode: settings.mode,
            builtin: Builtin::new(settings.builtin, leases),
            cni: Cni::new(settings.cni),
        }
    }

    /// Says who knows every attachment, so that what others take away under running pods can be brought back.
    pub fn ask_about_pods(&self, known: impl Fn() -> Vec<Attachment> + Send + Sync + 'static) {
        self.builtin.ask_about_pods(Box::new(known));
    }

    /// Decides who will attach the pod. Changes nothing; save the record before [`Manager::setup`].
    pub fn plan(&self, pod: &PodNet) -> Result<Attachment, NetworkError> {
        let by = match self.mode {
            Mode::None => By::None,
            Mode::Builtin => By::Builtin(self.builtin.plan(pod)),
            Mode::Cni => By::Cni(self.cni.plan()?),
            Mode::Auto if self.cni.configured() => By::Cni(self.cni.plan()?),
            Mode::Auto => By::Builtin(self.builtin.plan(pod)),
        };
        let mut pod = pod.clone();
        // In CRI a host port of 0 means none.
        pod.ports.retain(|port| port.host_port != 0);
        Ok(Attachment {
            pod,
            by,
            attached: false,
            interface: POD_INTERFACE.to_owned(),
            mac: None,
            ips: Vec::new(),
        })
    }

    /// Attaches the pod and gives the finished record, to be saved. On failure nothing is undone: call
    /// [`Manager::teardown`] with the planned record, also before the setup of a pod whose record may be from before
    /// a crash: plugins refuse to add a pod twice.
    pub fn setup(&self, planned: &Attachment) -> Result<Attachment, NetworkError> {
        faults::SETUP.pass()?;
        let mut done = planned.clone();
        match &mut done.by {
            By::None => {}
            By::Builtin(record) => {
                let netns = Netns::open(&planned.pod.netns)?;
                let got = self.builtin.setup(&planned.pod, record, &netns)?;
                (done.ips, done.mac) = (got.ips, Some(got.mac));
            }
            By::Cni(record) => {
                let got = self.cni.add(&planned.pod, record, &planned.interface)?;
                (done.ips, done.mac) = (got.ips, got.mac);
                record.result = Some(got.raw);
            }
        }
        done.attached = true;
        faults::ATTACHED.pass()?;
        Ok(done)
    }

    /// Detaches the pod. May be repeated; whatever is missing already (namespace, configuration, rules, lease)
    /// is no failure. What fails is to be tried again: see [`crate::cni::leftover`].
    pub fn teardown(&self, attachment: &Attachment) -> Result<(), NetworkError> {
        faults::TEARDOWN.pass()?;
        match &attachment.by {
            By::None => {}
            By::Builtin(record) => self.builtin.teardown(&attachment.pod, record)?,
            By::Cni(record) => self.cni.del(&attachment.pod, record, &attachment.interface)?,
        }
        Ok(faults::DETACHED.pass()?)
    }

    /// Looks whether the pod is still attached as recorded. A failure is only to be reported: the pod is left
    /// alone.
    pub fn check(&self, attachment: &Attachment) -> Result<(), NetworkError> {
        match &attachment.by {
            By::None => Ok(()),
            By::Builtin(record) => {
                Ok(self.builtin.check(record, &Netns::open(&attachment.pod.netns)?, &attachment.ips)?)
            }
            By::Cni(record) => Ok(self.cni.check(&attachment.pod, record, &attachment.interface)?),
        }
    }

    /// Whether pods can be attached. Answers from what is known, never from a plugin that is still running.
    pub fn status(&self) -> NetworkStatus {
        match self.mode {
            Mode::None => NetworkStatus::ready("mode none: pods have loopback only"),
            Mode::Builtin => self.builtin.status(),
            Mode::Cni => self.cni.status(),
            Mode::Auto if self.cni.configured() => self.cni.status(),
            Mode::Auto => self.builtin.status(),
        }
    }

    /// After a restart, with every attachment of this daemon: ends plugins that still run for them, brings back bridge
    /// and rules if pods of the built-in network live, and drops port mappings and leases of pods that are not among
    /// them and have gone.
    pub fn restore(&self, all: &[Attachment]) -> Result<(), NetworkError> {
        self.cni.end_orphans(all);
        Ok(self.builtin.restore(all)?)
    }

    /// Lets plugins free what belongs to no listed attachment. Only for the sole owner of the networks, and only
    /// with every attachment loaded, since plugins really free whatever is not listed.
    pub fn gc(&self, all: &[Attachment]) -> Result<(), NetworkError> {
        Ok(self.cni.gc(all)?)
    }

    /// At the end of the daemon: removes bridge and rules of the built-in network if no pod holds an address.
    /// Says whether it did.
    pub fn retire(&self) -> Result<bool, NetworkError> {
        Ok(self.builtin.retire()?)
    }

    /// Removes the bridge and the rules of the built-in network: for demos, tests and uninstalling.
    pub fn destroy(&self) -> Result<(), NetworkError> {
        Ok(self.builtin.destroy()?)
    }
}
