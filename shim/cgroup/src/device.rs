//! Which devices a group may use: the rules of the specification, for v1 as lines, for v2 as a program.
//!
//! Rules are read in order and the last one that fits decides, for each kind of access by itself.

mod program;

use std::os::fd::AsFd;

use berth_core::oci::{LinuxDeviceCgroup, LinuxDeviceType, LinuxResources};
use berth_sys::bpf;
use rustix::io::Errno;

use crate::error::{CgroupError, Result};
use crate::file::Dir;

pub use program::assemble;

/// Access to make a node of a device.
pub const MKNOD: u8 = 1;
/// Access to read.
pub const READ: u8 = 2;
/// Access to write.
pub const WRITE: u8 = 4;
const ALL: u8 = MKNOD | READ | WRITE;

/// Sort of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Both sorts; the rule then holds for every number and access.
    Any,
    /// Block devices.
    Block,
    /// Character devices.
    Char,
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether what fits is allowed.
    pub allow: bool,
    /// For which sort of device.
    pub kind: Kind,
    /// Its major number; none is every one.
    pub major: Option<u32>,
    /// Its minor number; none is every one.
    pub minor: Option<u32>,
    /// Bits of [`MKNOD`], [`READ`], [`WRITE`].
    pub access: u8,
}

/// Devices that every container has: the specification's default devices, pseudo terminals, /dev/net/tun (harmless
/// without CAP_NET_ADMIN, and asked for by node), and the making of any node (useless without a further rule).
const DEFAULTS: [Rule; 13] = [
    allow(Kind::Char, None, None, MKNOD),
    allow(Kind::Block, None, None, MKNOD),
    allow(Kind::Char, Some(1), Some(3), ALL),
    allow(Kind::Char, Some(1), Some(5), ALL),
    allow(Kind::Char, Some(1), Some(7), ALL),
    allow(Kind::Char, Some(1), Some(8), ALL),
    allow(Kind::Char, Some(1), Some(9), ALL),
    allow(Kind::Char, Some(5), Some(0), ALL),
    allow(Kind::Char, Some(5), Some(1), ALL),
    allow(Kind::Char, Some(5), Some(2), ALL),
    allow(Kind::Char, Some(10), Some(200), ALL),
    allow(Kind::Char, Some(136), None, ALL),
    allow(Kind::Char, Some(137), None, ALL),
];

const fn allow(kind: Kind, major: Option<u32>, minor: Option<u32>, access: u8) -> Rule {
    Rule { allow: true, kind, major, minor, access }
}

/// The rules of the resources with the default devices behind them; none if the resources say nothing of devices.
///
/// # Errors
/// A rule with a sort, number or access that no device has.
pub fn rules(resources: &LinuxResources) -> Result<Option<Vec<Rule>>> {
    let listed: Vec<Rule> = resources
        .devices()
        .iter()
        .flatten()
        .enumerate()
        .map(|(at, rule)| parse(at, rule))
        .collect::<Result<_>>()?;
    if listed.is_empty() {
        return Ok(None);
    }
    Ok(Some(listed.into_iter().chain(DEFAULTS).collect()))
}

/// For a group of which nothing is said: the default devices, and no others.
pub(crate) fn default_rules() -> Vec<Rule> {
    std::iter::once(NONE).chain(DEFAULTS).collect()
}

/// Takes every device away.
const NONE: Rule = Rule { allow: false, kind: Kind::Any, major: None, minor: None, access: ALL };

fn parse(at: usize, rule: &LinuxDeviceCgroup) -> Result<Rule> {
    let invalid = |what: &str| CgroupError::Invalid {
        setting: format!("devices[{at}].{what}"),
        reason: format!("no device has it in rule \"{rule}\""),
    };
    let number = |value: Option<i64>, what| match value {
        None | Some(-1) => Ok(None),
        Some(value) => {
            u32::try_from(value).ok().filter(|n| *n <= i32::MAX as u32).map(Some).ok_or(invalid(what))
        }
    };
    let kind = match rule.typ().unwrap_or_default() {
        LinuxDeviceType::A => Kind::Any,
        LinuxDeviceType::B => Kind::Block,
        LinuxDeviceType::C | LinuxDeviceType::U => Kind::Char,
        LinuxDeviceType::P => return Err(invalid("type")),
    };
    let (major, minor) = (number(rule.major(), "major")?, number(rule.minor(), "minor")?);
    let mut access = 0;
    for letter in rule.access().as_deref().unwrap_or("").chars() {
        access |= match letter {
            'r' => READ,
            'w' => WRITE,
            'm' => MKNOD,
            _ => return Err(invalid("access")),
        };
    }
    let access = if access == 0 { ALL } else { access };
    Ok(match kind {
        Kind::Any => Rule { allow: rule.allow(), kind, major: None, minor: None, access: ALL },
        kind => Rule { allow: rule.allow(), kind, major, minor, access },
    })
}

/// Writes the rules into a v1 devices group. In a group that is in use a failure brings the former list back.
pub(crate) fn write_v1(dir: &Dir, rules: &[Rule], fresh: bool) -> Result<()> {
    let former = if fresh { None } else { Some(dir.text("devices.list")?) };
    let file = |rule: &Rule| if rule.allow { "devices.allow" } else { "devices.deny" };
    // A new group has what its parent has. As on v2, what no rule names is denied.
    let all_first = rules.first().is_some_and(|rule| rule.kind == Kind::Any);
    let start = if all_first { None } else { Some(&NONE) };
    let done = start.into_iter().chain(rules).try_for_each(|rule| dir.set(file(rule), &line(rule)));
    done.inspect_err(|_| {
        if let Some(list) = &former {
            // What cannot be restored stays closed, which is the safe side.
            let _ = dir.write("devices.deny", "a");
            for line in list.lines() {
                let _ = dir.write("devices.allow", line);
            }
        }
    })
}

fn line(rule: &Rule) -> String {
    let number = |value: Option<u32>| value.map_or_else(|| "*".to_owned(), |value| value.to_string());
    let letter = match rule.kind {
        Kind::Any => return "a".to_owned(),
        Kind::Block => 'b',
        Kind::Char => 'c',
    };
    let access: String = [(READ, 'r'), (WRITE, 'w'), (MKNOD, 'm')]
        .into_iter()
        .filter(|(bit, _)| rule.access & bit != 0)
        .map(|(_, letter)| letter)
        .collect();
    format!("{letter} {}:{} {access}", number(rule.major), number(rule.minor))
}

/// Puts the rules on a v2 group as its one program, in place of what is there.
pub(crate) fn attach_v2(group: &Dir, rules: &[Rule], fresh: bool) -> Result<()> {
    let failed = |step| {
        move |error: std::io::Error| CgroupError::DeviceFilter {
            step,
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        }
    };
    let program = bpf::load_device_program(&assemble(rules)).map_err(failed("load"))?;
    let old = if fresh { Vec::new() } else { bpf::attached(&group.fd).map_err(failed("query"))? };
    if let [only] = old.as_slice()
        && bpf::attach(group.fd.as_fd(), &program, Some(only)).is_ok()
    {
        return Ok(());
    }
    bpf::attach(group.fd.as_fd(), &program, None).map_err(failed("attach"))?;
    // The kernel lets a device through only if every program says so: the new one is in force, the old may go.
    old.iter().try_for_each(|old| bpf::detach(group.fd.as_fd(), old)).map_err(failed("detach"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> Result<Option<Vec<Rule>>> {
        rules(&serde_json::from_str(&format!(r#"{{"devices":{json}}}"#)).unwrap())
    }

    #[test]
    fn no_rules_mean_no_control() {
        assert_eq!(parsed("[]").unwrap(), None);
        assert_eq!(rules(&LinuxResources::default()).unwrap(), None);
    }

    #[test]
    fn lines_are_as_the_kernel_reads_them() {
        let list = parsed(
            r#"[{"allow":false,"access":"rwm"},{"allow":true,"type":"b","major":8,"access":"rm"},
                {"allow":true,"type":"c","major":-1,"minor":3}]"#,
        );
        let lines: Vec<String> = list.unwrap().unwrap().iter().take(4).map(line).collect();
        assert_eq!(lines, ["a", "b 8:* rm", "c *:3 rwm", "c *:* m"]);
    }

    #[test]
    fn impossible_rules_are_named() {
        for (json, word) in [
            (r#"[{"allow":true,"type":"c","major":-2}]"#, "devices[0].major"),
            (r#"[{"allow":true},{"allow":true,"type":"c","access":"rx"}]"#, "devices[1].access"),
            (r#"[{"allow":true,"type":"p"}]"#, "devices[0].type"),
        ] {
            assert!(parsed(json).unwrap_err().to_string().contains(word), "{json}");
        }
    }
}
