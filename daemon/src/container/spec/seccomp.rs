//! The seccomp profile: the default one, a file of the node, or none.

use super::Input;
use super::capabilities::Sets;
use crate::pod::Error;
use crate::sandbox::SecurityProfile;
use berth_core::oci::LinuxSeccomp;

/// The profile. A privileged container has none; one that says nothing has none either, as in the field.
pub(super) fn profile(input: &Input<'_>, capabilities: &Sets) -> Result<Option<LinuxSeccomp>, Error> {
    let security = &input.config.security;
    match &security.seccomp {
        _ if security.privileged => Ok(None),
        None | Some(SecurityProfile::Unconfined) => Ok(None),
        Some(SecurityProfile::Localhost(_)) => Ok(input.facts.seccomp.clone()),
        Some(SecurityProfile::RuntimeDefault) => default(capabilities).map(Some),
    }
}

fn default(capabilities: &Sets) -> Result<LinuxSeccomp, Error> {
    let names: Vec<&String> = capabilities.all.iter().collect();
    let profile = berth_core::profile::seccomp_default(&names);
    let converted = serde_json::to_value(&profile).and_then(serde_json::from_value);
    converted.map_err(|error| Error::internal("build the default seccomp profile", error))
}
