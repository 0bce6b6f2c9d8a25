//! What the parent does for init on its way: mappings, network devices, hooks.

use berth_core::oci::{Hook, Hooks, Spec};

use super::linux_of;
use crate::args::CreateArgs;
use crate::error::Error;
use crate::hooks;
use crate::launch::{self, Answers};
use crate::netdevice::{self, Moved};
use crate::rdt::Made;

/// Whether there is anything to do once the namespaces are there.
pub(super) fn has_work(spec: &Spec) -> bool {
    let devices = spec.linux().as_ref().and_then(|linux| linux.net_devices().as_ref());
    devices.is_some_and(|devices| !devices.is_empty()) || runtime_hooks(spec).next().is_some()
}

fn runtime_hooks(spec: &Spec) -> impl Iterator<Item = (&'static str, &Vec<Hook>)> {
    let list = |kind, get: fn(&Hooks) -> &Option<Vec<Hook>>| {
        spec.hooks().as_ref().and_then(|h| get(h).as_ref()).filter(|l| !l.is_empty()).map(|l| (kind, l))
    };
    [list("prestart", Hooks::prestart), list("createRuntime", Hooks::create_runtime)].into_iter().flatten()
}

/// This process, as init asks it.
pub(super) struct Parent<'a> {
    pub(super) args: &'a CreateArgs,
    /// The class of service that every process of the container is born in.
    pub(super) class: Option<&'a Made>,
    /// Network devices that were moved on the way.
    pub(super) moved: Option<Moved>,
}

impl Answers for Parent<'_> {
    fn map_users(&mut self, pid: i32) -> Result<(), Error> {
        let linux = linux_of(&self.args.spec)?;
        let none = Vec::new();
        let users = linux.uid_mappings().as_ref().unwrap_or(&none);
        let groups = linux.gid_mappings().as_ref().unwrap_or(&none);
        Ok(launch::write_mappings(pid, users, groups)?)
    }

    fn hooks(&mut self, pid: i32) -> Result<(), Error> {
        self.moved = netdevice::move_in(linux_of(&self.args.spec)?, pid)?;
        let state =
            hooks::state_text(&self.args.id, "creating", Some(pid), &self.args.bundle, &self.args.spec);
        for (kind, list) in runtime_hooks(&self.args.spec) {
            hooks::run_all(kind, list, &state)?;
        }
        Ok(())
    }
}
