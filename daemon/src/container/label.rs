//! AppArmor and SELinux: what is asked for is applied or refused, never left out in silence.

use super::ContainerConfig;
use crate::pod::Error;
use crate::sandbox::SecurityProfile;
use std::path::Path;

/// What the kernel enforces on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lsms {
    apparmor: bool,
    selinux: bool,
}

impl Lsms {
    /// Looks.
    pub(super) fn look() -> Self {
        let enabled = std::fs::read("/sys/module/apparmor/parameters/enabled");
        Self {
            apparmor: enabled.is_ok_and(|text| text.starts_with(b"Y")),
            selinux: Path::new("/sys/fs/selinux/enforce").exists(),
        }
    }
}

/// The AppArmor profile to run under, if any.
///
/// # Errors
/// The node cannot give what is asked for.
pub(super) fn profile(config: &ContainerConfig, on: Lsms) -> Result<Option<String>, Error> {
    let security = &config.security;
    if security.selinux.is_some() && on.selinux && !security.privileged {
        let what = "an SELinux label (config.linux.security_context.selinux_options)";
        return Err(Error::Unsupported(what.to_owned()));
    }
    match (&security.apparmor, on.apparmor) {
        _ if security.privileged => Ok(None),
        (Some(SecurityProfile::Localhost(name)), true) => Ok(Some(name.clone())),
        (Some(SecurityProfile::Localhost(name)), false) => {
            let problem = format!("profile {name:?} is asked for, but AppArmor is off on this node");
            Err(Error::invalid("config.linux.security_context.apparmor", problem))
        }
        (Some(SecurityProfile::RuntimeDefault), true) => {
            let container = &config.name;
            tracing::warn!(
                container,
                "berth has no AppArmor profile of its own; the container runs without one"
            );
            Ok(None)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_given_is_refused() {
        let (on, off) = (Lsms { apparmor: true, selinux: true }, Lsms { apparmor: false, selinux: false });
        let with = |apparmor: Option<SecurityProfile>, selinux: Option<&str>| {
            let mut config = ContainerConfig::default();
            config.security.apparmor = apparmor;
            config.security.selinux = selinux.map(str::to_owned);
            config
        };
        let named = Some(SecurityProfile::Localhost("mine".into()));
        assert_eq!(profile(&with(named.clone(), None), on), Ok(Some("mine".to_owned())));
        let refused = profile(&with(named.clone(), None), off).unwrap_err().to_string();
        assert!(refused.contains("mine") && refused.contains("AppArmor is off"), "{refused}");
        for harmless in [None, Some(SecurityProfile::RuntimeDefault), Some(SecurityProfile::Unconfined)] {
            for node in [on, off] {
                assert_eq!(profile(&with(harmless.clone(), None), node), Ok(None));
            }
        }
        assert!(profile(&with(None, Some("u:r:t:s0")), on).unwrap_err().to_string().contains("SELinux"));
        assert_eq!(
            profile(&with(None, Some("u:r:t:s0")), off),
            Ok(None),
            "SELinux is off: nothing to confine"
        );
        let mut privileged = with(named, Some("u:r:t:s0"));
        privileged.security.privileged = true;
        assert_eq!(profile(&privileged, on), Ok(None));
    }
}
