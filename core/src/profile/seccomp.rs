//! The default seccomp profile, as an OCI `linux.seccomp` object.
//!
//! In effect the field's RuntimeDefault: what is not named is refused with EPERM. Calls newer than the newest one named
//! here must answer ENOSYS, so that a libc ahead of this table takes its fall-back path instead of believing that it
//! lacks a right; that is the compiler's part, since a profile cannot say it.

use serde::{Deserialize, Serialize};

use super::calls;

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// Flags of clone(2) that make a namespace: mount, cgroup, uts, ipc, user, pid, net.
const CLONE_NEW_ANY: u64 =
    0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;

const AF_ALG: u64 = 38;
const AF_NFC: u64 = 39;
const AF_VSOCK: u64 = 40;
/// The newest address family there is (MCTP, 5.15).
const AF_NEWEST: u64 = 45;

/// Execution domains a container may choose: Linux and Linux32, each also with the old memory layout
/// (UNAME26 apart), and the value that only asks.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// A seccomp profile in the form of the OCI runtime specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seccomp {
    /// What happens to a call that no rule names.
    pub default_action: Action,
    /// The errno of the default action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_errno_ret: Option<u32>,
    /// The architectures whose system calls are judged; others are killed.
    pub architectures: Vec<String>,
    /// The rules. A call that several rules fit gets the first of them.
    pub syscalls: Vec<Rule>,
}

/// The actions the default profile uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// The call runs.
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    /// The call fails with the rule's errno.
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
}

/// One rule: these calls, under these conditions, get this action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// System call names.
    pub names: Vec<String>,
    /// What happens.
    pub action: Action,
    /// The errno of [`Action::Errno`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno_ret: Option<u32>,
    /// Conditions on arguments; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<Argument>,
}

/// A condition on one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Argument {
    /// Which argument, from 0.
    pub index: u32,
    /// What it is compared with; the mask of [`Operator::MaskedEqual`].
    pub value: u64,
    /// What the masked argument must equal.
    #[serde(default)]
    pub value_two: u64,
    /// How.
    pub op: Operator,
}

/// Comparisons of the default profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// The argument is less.
    #[serde(rename = "SCMP_CMP_LT")]
    Less,
    /// The argument is equal.
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    /// The argument is greater.
    #[serde(rename = "SCMP_CMP_GT")]
    Greater,
    /// The argument, masked, is equal.
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
}

impl Seccomp {
    /// The profile as the JSON of `linux.seccomp` in an OCI bundle.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// The default profile for a container with these capabilities in its bounding set (names like `CAP_SYS_ADMIN`;
/// names that mean nothing here are passed over).
pub fn seccomp_default(capabilities: &[impl AsRef<str>]) -> Seccomp {
    let has = |name: &str| capabilities.iter().any(|cap| cap.as_ref() == name);
    let mut allowed: Vec<&str> = calls::ALLOWED.iter().flat_map(|group| group.iter().copied()).collect();
    for (capability, names) in calls::WITH_CAPABILITY {
        if has(capability) {
            allowed.extend_from_slice(names);
        }
    }
    allowed.sort_unstable();
    allowed.dedup();
    let mut syscalls = vec![allow(&allowed)];
    syscalls.extend(socket_rules());
    syscalls.extend(PERSONALITIES.map(|value| when("personality", Operator::Equal, value)));
    if !has("CAP_SYS_ADMIN") {
        // The flags of clone3 lie in memory, where a filter cannot look; ENOSYS makes libc use clone instead.
        syscalls.push(when("clone", Operator::MaskedEqual, CLONE_NEW_ANY));
        syscalls.push(Rule { action: Action::Errno, errno_ret: Some(ENOSYS), ..allow(&["clone3"]) });
    }
    Seccomp {
        default_action: Action::Errno,
        default_errno_ret: Some(EPERM),
        architectures: architectures(),
        syscalls,
    }
}

/// The machine's own architecture and the 32-bit one that its kernel also runs.
fn architectures() -> Vec<String> {
    let names: &[&str] = match std::env::consts::ARCH {
        "aarch64" => &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
        _ => &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Sockets of every family but AF_ALG (the kernel's crypto code, a record of holes) and AF_VSOCK (reaches the
/// hypervisor past every network namespace). Families are named, not excluded: the kernel drops the upper half of the
/// argument, so "anything but 38" would let 2^32 + 38 pass.
///
/// The 32-bit `socketcall` stays open, as in the field: its arguments lie in memory.
fn socket_rules() -> Vec<Rule> {
    let named = std::iter::once(AF_NFC).chain(AF_VSOCK + 1..=AF_NEWEST);
    let mut rules = vec![when("socket", Operator::Less, AF_ALG)];
    rules.extend(named.map(|family| when("socket", Operator::Equal, family)));
    rules
}

fn allow(names: &[&str]) -> Rule {
    Rule {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        action: Action::Allow,
        errno_ret: None,
        args: Vec::new(),
    }
}

/// Allows a call if its first argument fits.
fn when(name: &str, op: Operator, value: u64) -> Rule {
    Rule { args: vec![Argument { index: 0, value, value_two: 0, op }], ..allow(&[name]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(profile: &Seccomp, name: &str) -> Vec<Rule> {
        profile.syscalls.iter().filter(|rule| rule.names.iter().any(|n| n == name)).cloned().collect()
    }

    #[test]
    fn capabilities_open_exactly_their_calls() {
        let plain = seccomp_default(super::super::DEFAULT_CAPABILITIES);
        let admin = seccomp_default(&["CAP_SYS_ADMIN", "CAP_UNHEARD_OF"]);
        for name in ["mount", "unshare", "setns", "bpf", "reboot", "io_uring_setup", "keyctl", "kexec_load"] {
            assert!(named(&plain, name).is_empty(), "{name}");
        }
        assert_eq!(named(&plain, "chroot").len(), 1, "CAP_SYS_CHROOT is a default capability");
        assert_eq!(named(&plain, "clone3")[0].errno_ret, Some(ENOSYS));
        assert_eq!(named(&plain, "clone")[0].args[0].value, 0x7e02_0000);
        assert!(named(&admin, "clone")[0].args.is_empty());
        assert_eq!(named(&admin, "clone3")[0].action, Action::Allow);
        assert!(!named(&admin, "mount").is_empty());
        assert!(named(&admin, "io_uring_setup").is_empty());
    }

    #[test]
    fn alg_and_vsock_sockets_fit_no_rule() {
        let rules = named(&seccomp_default(&["CAP_SYS_ADMIN"]), "socket");
        let allowed = |domain: u64| {
            rules.iter().any(|rule| match rule.args[0].op {
                Operator::Less => domain < rule.args[0].value,
                Operator::Equal => domain == rule.args[0].value,
                _ => unreachable!("not used for sockets"),
            })
        };
        assert!([1, 2, 10, 16, 17, 37, 39, 41, 45].into_iter().all(allowed));
        assert!(![38, 40, 46, (1 << 32) + 38, u64::MAX].into_iter().any(allowed));
    }

    #[test]
    fn the_json_is_the_form_of_the_specification() {
        let json: serde_json::Value =
            serde_json::from_str(&seccomp_default(&["CAP_CHOWN"]).to_json().unwrap()).unwrap();
        assert_eq!(json["defaultAction"], "SCMP_ACT_ERRNO");
        assert_eq!(json["defaultErrnoRet"], 1);
        let clone =
            json["syscalls"].as_array().unwrap().iter().find(|rule| rule["names"][0] == "clone").unwrap();
        assert_eq!(clone["args"][0]["op"], "SCMP_CMP_MASKED_EQ");
        assert_eq!(clone["args"][0]["valueTwo"], 0);
    }
}
