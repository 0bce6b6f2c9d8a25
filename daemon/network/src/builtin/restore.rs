//! After a restart: what the records say and what the kernel still has become one again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Builtin, BuiltinError, bridge, forward, pod, sysctl, table};
use crate::attachment::{Attachment, By};
use crate::netlink::nft::Nft;
use crate::netlink::route::Route;
use crate::netns::Netns;

impl Builtin {
    /// See [`crate::Manager::restore`].
    pub fn restore(&self, all: &[Attachment]) -> Result<(), BuiltinError> {
        let (route, nft) = (Route::open()?, Nft::open()?);
        let bridge = &self.settings.bridge;
        let _one_at_a_time = self.cursor();
        let unknown = self.settle_strays(&route, all)?;
        let live: Vec<&Attachment> = all.iter().filter(|a| self.is_live(a)).collect();
        if live.is_empty() && table::stamp(&nft, bridge)?.is_none() {
            return Ok(());
        }
        let mut ports = table::Ports::of(live.iter().map(|a| (&a.pod, &a.ips[..])));
        ports.extend(table::open_ports(&nft, bridge)?.leading_to(&unknown));
        if !live.is_empty() {
            let index = bridge::ensure(&route, &self.settings)?;
            bridge::adopt(&route, index, live.iter().filter_map(|a| host_interface(a)))?;
        }
        if !ports.is_empty() && !live.is_empty() {
            sysctl::route_localnet(bridge)?;
        }
        table::rebuild(&nft, &self.settings, ports)?;
        forward::allow(&nft, bridge)
    }

    /// Brings back what somebody else took away under running pods, such as a firewall that flushed every table: the bridge
    /// with the pods' interfaces, the rules, the host ports. Nothing while all is there or no pod lives.
    pub(super) fn mend(&self, route: &Route, nft: &Nft) -> Result<(), BuiltinError> {
        let (bridge, Some(known)) = (&self.settings.bridge, self.known.get()) else { return Ok(()) };
        let whole = || -> Result<bool, BuiltinError> {
            Ok(route.link(bridge)?.is_some()
                && table::stamp(nft, bridge)? == Some(table::wanted_stamp(&self.settings)))
        };
        if self.leases.list()?.is_empty() || whole()? {
            return Ok(());
        }
        let all = known();
        let _one_at_a_time = self.cursor();
        let live: Vec<&Attachment> = all.iter().filter(|a| self.is_live(a)).collect();
        if live.is_empty() || whole()? {
            return Ok(());
        }
        tracing::warn!(
            bridge,
            pods = live.len(),
            "the bridge or its rules were taken away; they are made anew"
        );
        let mut ports = table::Ports::of(live.iter().map(|a| (&a.pod, &a.ips[..])));
        ports.extend(table::open_ports(nft, bridge)?);
        let index = bridge::ensure(route, &self.settings)?;
        bridge::adopt(route, index, live.iter().filter_map(|a| host_interface(a)))?;
        if !ports.is_empty() {
            sysctl::route_localnet(bridge)?;
        }
        table::rebuild(nft, &self.settings, ports)?;
        forward::allow(nft, bridge)
    }

    /// Gives back the addresses of sandboxes without a record, but for those whose interface is still there: a record
    /// may be unreadable while its pod lives. Says which addresses those are.
    fn settle_strays(&self, route: &Route, all: &[Attachment]) -> Result<BTreeSet<IpAddr>, BuiltinError> {
        let known: BTreeSet<&str> = all.iter().map(|a| a.pod.sandbox.as_str()).collect();
        let mut kept = BTreeSet::new();
        for lease in self.leases.list()?.iter().filter(|l| !known.contains(l.owner.as_str())) {
            if route.link(&pod::host_interface(&lease.owner))?.is_some() {
                tracing::warn!(sandbox = lease.owner, ip = %lease.address, "a lease without a record is in use");
                kept.insert(lease.address);
            } else {
                self.leases.release(&lease.owner)?;
            }
        }
        Ok(kept)
    }

    /// Attached to this bridge, by a namespace that this boot still has.
    fn is_live(&self, attachment: &Attachment) -> bool {
        let ours = matches!(&attachment.by, By::Builtin(r) if r.bridge == self.settings.bridge);
        ours && attachment.attached && Netns::is_pinned(&attachment.pod.netns)
    }
}

fn host_interface(attachment: &Attachment) -> Option<&str> {
    match &attachment.by {
        By::Builtin(record) => Some(&record.host_interface),
        _ => None,
    }
}
