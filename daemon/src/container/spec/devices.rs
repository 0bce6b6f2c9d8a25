//! Devices: nodes to make, and the rules of the cgroup's device filter.

use super::Input;
use berth_core::oci::{LinuxDevice, LinuxDeviceCgroup, LinuxDeviceType, LinuxResources};

/// What every container may use: null, zero, full, random, urandom, tty, ptmx and its terminals. Making nodes is
/// allowed, using them is not.
const DEFAULTS: [(LinuxDeviceType, Option<i64>, Option<i64>, &str); 11] = [
    (LinuxDeviceType::C, None, None, "m"),
    (LinuxDeviceType::B, None, None, "m"),
    (LinuxDeviceType::C, Some(1), Some(3), "rwm"),
    (LinuxDeviceType::C, Some(1), Some(5), "rwm"),
    (LinuxDeviceType::C, Some(1), Some(7), "rwm"),
    (LinuxDeviceType::C, Some(1), Some(8), "rwm"),
    (LinuxDeviceType::C, Some(1), Some(9), "rwm"),
    (LinuxDeviceType::C, Some(5), Some(0), "rwm"),
    (LinuxDeviceType::C, Some(5), Some(1), "rwm"),
    (LinuxDeviceType::C, Some(5), Some(2), "rwm"),
    (LinuxDeviceType::C, Some(136), None, "rwm"),
];

/// The nodes beyond the default ones.
pub(super) fn nodes(input: &Input<'_>) -> Option<Vec<LinuxDevice>> {
    let all: Vec<LinuxDevice> = input.facts.devices.iter().map(|(device, _)| device.clone()).collect();
    (!all.is_empty()).then_some(all)
}

/// The limits with the filter's rules: nothing, the defaults, what was asked for; everything for a privileged one.
pub(super) fn with_rules(mut limits: LinuxResources, input: &Input<'_>) -> LinuxResources {
    let privileged = input.config.security.privileged;
    let mut rules = vec![rule(privileged, None, None, None, "rwm")];
    if !privileged {
        rules.extend(
            DEFAULTS
                .iter()
                .map(|(kind, major, minor, access)| rule(true, Some(*kind), *major, *minor, access)),
        );
        let asked = input.facts.devices.iter();
        rules.extend(asked.map(|(device, access)| {
            rule(true, Some(device.typ()), Some(device.major()), Some(device.minor()), access)
        }));
    }
    limits.devices = Some(rules);
    limits
}

fn rule(
    allow: bool,
    kind: Option<LinuxDeviceType>,
    major: Option<i64>,
    minor: Option<i64>,
    access: &str,
) -> LinuxDeviceCgroup {
    LinuxDeviceCgroup { allow, typ: kind, major, minor, access: Some(access.to_owned()) }
}
