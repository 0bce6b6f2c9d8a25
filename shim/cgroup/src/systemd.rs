//! Groups made by systemd as transient scopes.
//!
//! A scope begins with a process, so the group comes into being in `join`. systemd makes it where it works itself
//! (its own hierarchy, the unified tree, and the controllers it has switched on); what is missing is made by hand
//! below the same path and removed at delete. Limits are told to systemd as properties *and* written to the files:
//! without the properties the next `daemon-reload` would write its own idea of them.

mod connection;
mod device;
mod properties;
mod wire;

use berth_core::oci::LinuxResources;

use crate::error::{CgroupError, Result};
use crate::group::Plan;
use crate::group::make::{Existing, make_into};
use crate::group::places::Places;
use crate::hierarchy::{Hierarchies, Mode};
use crate::path::CgroupPath;
use connection::{Connection, Failure};
use properties::Property;
use wire::Value;

const UNIT_EXISTS: &str = "org.freedesktop.systemd1.UnitExists";
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// A scope that is not started yet.
pub(crate) struct Pending {
    path: CgroupPath,
    mode: Mode,
    properties: Vec<Property>,
    plan: Plan,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pending({})", self.path.unit())
    }
}

impl Pending {
    /// Works the properties out, so that a bad value is told before any process exists.
    pub(crate) fn new(
        hierarchies: &Hierarchies,
        path: &CgroupPath,
        resources: &LinuxResources,
        plan: Plan,
    ) -> Result<Self> {
        let mode = hierarchies.mode();
        let mut list = properties::of_scope(path, mode);
        list.extend(properties::of_resources(resources, mode)?);
        list.extend(plan.devices.as_deref().map(device::properties).unwrap_or_default());
        Ok(Self { path: path.clone(), mode, properties: list, plan })
    }

    /// Starts the scope with its first process and completes the group.
    pub(crate) fn start(&self, pid: i32) -> Result<Places> {
        let unit = self.path.unit();
        let pid_value = u32::try_from(pid).map_err(|_| failed(&unit, "the process number is negative"))?;
        let mut list = self.properties.clone();
        list.push(("PIDs", Value::Words(vec![pid_value])));
        let mut bus = Connection::open().map_err(|error| failed(&unit, error))?;
        known(&mut bus, &mut list).map_err(|error| failed(&unit, error))?;
        start_unit(&mut bus, &unit, &list)?;
        let mut places = Places::default();
        match self.complete(pid, &mut places) {
            Ok(()) => Ok(places),
            Err(error) => {
                // The first error is the one to tell. systemd ends the process, and what was made by hand goes after it.
                let _ = stop_unit(&mut bus, &unit);
                let _ = crate::remove::all(&places);
                Err(error)
            }
        }
    }

    fn complete(&self, pid: i32, places: &mut Places) -> Result<()> {
        let hierarchies = Hierarchies::discover()?;
        let by_hand = |first: &str| !first.is_empty() && first != "name=systemd";
        make_into(&hierarchies, &self.path.relative(), Existing::Keep, by_hand, places)?;
        places.join(pid)?;
        self.plan.carry_out(self.mode, places)
    }
}

/// Brings the properties of a running scope in step with an update. A group of the other driver is none of systemd's.
pub(crate) fn update(path: &CgroupPath, mode: Mode, resources: &LinuxResources) -> Result<()> {
    let unit = path.unit();
    if unit.is_empty() {
        return Ok(());
    }
    let mut list = properties::of_resources(resources, mode)?;
    list.extend(crate::device::rules(resources)?.as_deref().map(device::properties).unwrap_or_default());
    // It can only be said when the scope begins.
    list.retain(|(name, _)| *name != "OOMPolicy");
    if list.is_empty() {
        return Ok(());
    }
    let mut bus = Connection::open().map_err(|error| failed(&unit, error))?;
    known(&mut bus, &mut list).map_err(|error| failed(&unit, error))?;
    let body = wire::body(|body| {
        body.string(&unit);
        body.boolean(true);
        body.properties(&list);
    });
    bus.call("SetUnitProperties", "sba(sv)", &body).map_err(|error| failed(&unit, error))?;
    Ok(())
}

/// Ends a scope; one that is gone already is a success.
pub(crate) fn stop(path: &CgroupPath) -> Result<()> {
    let unit = path.unit();
    if unit.is_empty() {
        return Ok(());
    }
    let mut bus = Connection::open().map_err(|error| failed(&unit, error))?;
    stop_unit(&mut bus, &unit)
}

/// Leaves out what this release of systemd does not take; the files are written all the same.
fn known(bus: &mut Connection, list: &mut Vec<Property>) -> std::result::Result<(), Failure> {
    if list.iter().any(|property| properties::since(property) > 0) {
        let version = bus.version()?;
        list.retain(|property| properties::since(property) <= version);
    }
    Ok(())
}

fn start_unit(bus: &mut Connection, unit: &str, list: &[Property]) -> Result<()> {
    let body = wire::body(|body| {
        body.string(unit);
        body.string("replace");
        body.properties(list);
        body.no_auxiliary_units();
    });
    let start = |bus: &mut Connection| bus.job("StartTransientUnit", "ssa(sv)a(sa(sv))", &body);
    match start(bus) {
        // A scope of this name that failed and was never collected.
        Err(Failure::Refused { name, .. }) if name == UNIT_EXISTS => {
            reset(bus, unit);
            start(bus).map_err(|error| failed(unit, error))
        }
        other => other.map_err(|error| failed(unit, error)),
    }
}

fn stop_unit(bus: &mut Connection, unit: &str) -> Result<()> {
    let body = wire::body(|body| {
        body.string(unit);
        body.string("replace");
    });
    match bus.job("StopUnit", "ss", &body) {
        Err(Failure::Refused { name, .. }) if name == NO_SUCH_UNIT => return Ok(()),
        other => other.map_err(|error| failed(unit, error))?,
    }
    reset(bus, unit);
    Ok(())
}

/// Forgets a failed unit; one that is not failed gives an error of no interest.
fn reset(bus: &mut Connection, unit: &str) {
    let body = wire::body(|body| body.string(unit));
    let _ = bus.call("ResetFailedUnit", "s", &body);
}

fn failed(unit: &str, error: impl std::fmt::Display) -> CgroupError {
    CgroupError::Systemd(format!("{unit}: {error}"))
}
