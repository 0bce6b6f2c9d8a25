//! Capabilities: the defaults, plus what is added, minus what is dropped, within the daemon's own bounding set.

use super::Input;
use crate::pod::Error;
use berth_core::oci::{Capabilities, Capability, LinuxCapabilities};
use berth_core::profile::DEFAULT_CAPABILITIES;
use std::collections::BTreeSet;

const ALL: &str = "ALL";
const FIELD: &str = "config.linux.security_context.capabilities";

/// What the container gets, by full names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sets {
    /// Bounding, effective and permitted.
    pub(super) all: BTreeSet<String>,
    /// Ambient, and inheritable as the kernel wants it for those.
    pub(super) ambient: BTreeSet<String>,
}

pub(super) fn sets(input: &Input<'_>) -> Result<Sets, Error> {
    let security = &input.config.security;
    let bounding: BTreeSet<String> = input.facts.bounding.iter().cloned().collect();
    let within = |set: BTreeSet<String>| set.intersection(&bounding).cloned().collect::<BTreeSet<_>>();
    let (add, add_all) = names(&security.add_capabilities)?;
    let (drop, drop_all) = names(&security.drop_capabilities)?;
    let (ambient, _) = names(&security.add_ambient_capabilities)?;
    let mut all: BTreeSet<String> = match (security.privileged, drop_all, add_all) {
        (true, ..) | (false, false, true) => bounding.clone(),
        // Whoever drops all means it, also beside an added ALL; what is added by name comes on top.
        (false, true, _) => BTreeSet::new(),
        (false, false, false) => DEFAULT_CAPABILITIES.iter().map(|name| (*name).to_owned()).collect(),
    };
    all.extend(add);
    all.extend(ambient.iter().cloned());
    if !security.privileged {
        all.retain(|name| !drop.contains(name));
    }
    let all = within(all);
    let ambient = ambient.intersection(&all).cloned().collect();
    Ok(Sets { all, ambient })
}

/// Full names, and whether ALL is among them. Both `SYS_ADMIN` and `CAP_SYS_ADMIN` are taken, in any case.
fn names(given: &[String]) -> Result<(BTreeSet<String>, bool), Error> {
    let mut set = BTreeSet::new();
    let mut all = false;
    for name in given {
        let upper = name.to_ascii_uppercase();
        let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
        match short {
            ALL => all = true,
            short if short.parse::<Capability>().is_ok() => {
                set.insert(format!("CAP_{short}"));
            }
            _ => return Err(Error::invalid(FIELD, format!("{name:?} is not known"))),
        }
    }
    Ok((set, all))
}

impl Sets {
    /// As the spec has them.
    pub(super) fn to_oci(&self) -> LinuxCapabilities {
        let all = oci(&self.all);
        let ambient = oci(&self.ambient);
        LinuxCapabilities {
            bounding: Some(all.clone()),
            effective: Some(all.clone()),
            permitted: Some(all),
            inheritable: Some(ambient.clone()),
            ambient: Some(ambient),
        }
    }
}

fn oci(names: &BTreeSet<String>) -> Capabilities {
    names.iter().filter_map(|name| name.strip_prefix("CAP_")?.parse().ok()).collect()
}
