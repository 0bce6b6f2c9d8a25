//! The built-in network: a bridge, a veth pair per pod, leased addresses, one nftables table.
//!
//! Two daemons on one node live side by side with two bridges and two subnets: the table bears the bridge's name,
//! and nothing else on the node is shared.

mod address;
mod bridge;
mod error;
mod forward;
mod pod;
mod ports;
mod restore;
mod sysctl;
mod table;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::attachment::{Attachment, BuiltinRecord, PodIp};
use crate::faults;
use crate::leases::Leases;
use crate::netlink::nft::Nft;
use crate::netlink::route::Route;
use crate::netns::Netns;
use crate::pod::PodNet;
use crate::settings::BuiltinSettings;
use crate::status::NetworkStatus;

pub use error::BuiltinError;

/// What a pod got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// One address per subnet, in the order of the settings.
    pub ips: Vec<PodIp>,
    /// Hardware address of the pod's interface.
    pub mac: String,
}

/// Gives every attachment of the daemon.
pub type Known = Box<dyn Fn() -> Vec<Attachment> + Send + Sync>;

/// The built-in network of one daemon.
pub struct Builtin {
    settings: BuiltinSettings,
    leases: Arc<dyn Leases>,
    /// Every attachment there is, asked when something of the network is found missing.
    known: OnceLock<Known>,
    /// Held while bridge and table are changed; remembers the address given last.
    making: Mutex<address::Cursor>,
}

impl Builtin {
    /// Touches nothing yet.
    pub fn new(settings: BuiltinSettings, leases: Arc<dyn Leases>) -> Self {
        Self { settings, leases, known: OnceLock::new(), making: Mutex::default() }
    }

    /// Says who knows every attachment. Once; later words are not heard.
    pub fn ask_about_pods(&self, known: Known) {
        let _ = self.known.set(known);
    }

    /// What teardown will need, known before anything is done.
    pub fn plan(&self, pod: &PodNet) -> BuiltinRecord {
        BuiltinRecord {
            bridge: self.settings.bridge.clone(),
            host_interface: pod::host_interface(&pod.sandbox),
        }
    }

    /// Gives the pod its addresses, its interface and its host ports. On failure call [`Builtin::teardown`].
    pub fn setup(&self, pod: &PodNet, record: &BuiltinRecord, netns: &Netns) -> Result<Joined, BuiltinError> {
        let route = Route::open()?;
        let nft = Nft::open()?;
        self.mend(&route, &nft)?;
        let bridge = self.ensure(&route, &nft)?;
        let ips = self.addresses(&pod.sandbox)?;
        faults::LEASED.pass()?;
        let mtu = match self.settings.mtu {
            None => bridge::uplink_mtu(&route, &self.settings.subnets)?,
            set => set,
        };
        let plug = pod::Plug { record, netns, ips: &ips, bridge, mtu };
        let mac = plug.connect(&route)?;
        faults::LINKED.pass()?;
        if !pod.ports.is_empty() {
            let _one_at_a_time = self.cursor();
            ports::open(&route, &nft, record, pod, &ips)?;
        }
        Ok(Joined { ips, mac })
    }

    /// Closes the pod's host ports and gives its addresses back. Its interface goes with its namespace, which
    /// the caller removes: deleting a veth by itself takes twenty times as long.
    pub fn teardown(&self, pod: &PodNet, record: &BuiltinRecord) -> Result<(), BuiltinError> {
        let held: BTreeSet<IpAddr> = self.leases.held(&pod.sandbox)?.iter().map(|l| l.address).collect();
        if !pod.ports.is_empty() {
            let _one_at_a_time = self.cursor();
            ports::close(record, &held)?;
        }
        Ok(self.leases.release(&pod.sandbox)?)
    }

    /// Whether the pod still has its interface and addresses.
    pub fn check(&self, record: &BuiltinRecord, netns: &Netns, ips: &[PodIp]) -> Result<(), BuiltinError> {
        pod::check(record, netns, ips)
    }

    /// Whether the next pod can be attached.
    pub fn status(&self) -> NetworkStatus {
        let looked = Route::open().map_err(BuiltinError::from).and_then(|route| {
            self.mend(&route, &Nft::open()?)?;
            bridge::look(&route, &self.settings)
        });
        match looked {
            Ok(_) => NetworkStatus::ready(format!("built-in network on bridge {}", self.settings.bridge)),
            Err(e) => NetworkStatus::not_ready("BuiltinNetworkNotReady", berth_core::error::chain(&e)),
        }
    }

    /// Removes bridge and table. Pods that still hang on the bridge lose their network.
    pub fn destroy(&self) -> Result<(), BuiltinError> {
        let name = &self.settings.bridge;
        let nft = Nft::open()?;
        forward::disallow(&nft, name)?;
        table::remove(&nft, name)?;
        bridge::remove(&Route::open()?, name)
    }

    /// See [`crate::Manager::retire`].
    pub fn retire(&self) -> Result<bool, BuiltinError> {
        if !self.leases.list()?.is_empty() {
            return Ok(false);
        }
        self.destroy().map(|()| true)
    }

    fn cursor(&self) -> std::sync::MutexGuard<'_, address::Cursor> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bridge and table as they should be; gives the bridge's index.
    fn ensure(&self, route: &Route, nft: &Nft) -> Result<u32, BuiltinError> {
        let _one_at_a_time = self.cursor();
        let index = bridge::ensure(route, &self.settings)?;
        if table::stamp(nft, &self.settings.bridge)? != Some(table::wanted_stamp(&self.settings)) {
            let ports = table::open_ports(nft, &self.settings.bridge)?;
            table::rebuild(nft, &self.settings, ports)?;
            forward::allow(nft, &self.settings.bridge)?;
        }
        Ok(index)
    }

    fn addresses(&self, sandbox: &str) -> Result<Vec<PodIp>, BuiltinError> {
        let mut cursor = self.cursor();
        let subnets = self.settings.subnets.iter();
        subnets.map(|subnet| address::lease(&*self.leases, subnet, sandbox, &mut cursor)).collect()
    }
}
