//! Tests of the compiler: a machine for its programs, a plain reading of profiles, and the two compared.

use std::collections::HashMap;

use berth_core::oci::{
    LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompOperator, LinuxSyscall,
};
use proptest::prelude::*;

use super::abi::{Abi, X32_BIT};
use super::*;

pub(super) const X86_64: u32 = 0xc000_003e;
pub(super) const I386: u32 = 0x4000_0003;
pub(super) const AARCH64: u32 = 0xc000_00b7;
pub(super) const ARM: u32 = 0x4000_0028;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;

/// Runs a program as the kernel does; panics where the kernel would refuse it.
pub(super) fn run(program: &Program, arch: u32, number: u32, args: [u64; 6]) -> u32 {
    let mut data = [0u32; 16];
    (data[0], data[1]) = (number, arch);
    for (at, arg) in args.iter().enumerate() {
        data[4 + 2 * at] = *arg as u32;
        data[5 + 2 * at] = (arg >> 32) as u32;
    }
    let (mut at, mut word) = (0, 0u32);
    loop {
        let bytes = &program.bytes()[8 * at..8 * at + 8];
        let (jt, jf) = (usize::from(bytes[2]), usize::from(bytes[3]));
        let k = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        at += 1;
        match u16::from_ne_bytes([bytes[0], bytes[1]]) {
            0x20 => word = data[k as usize / 4],
            0x54 => word &= k,
            0x05 => at += k as usize,
            0x15 => at += if word == k { jt } else { jf },
            0x25 => at += if word > k { jt } else { jf },
            0x35 => at += if word >= k { jt } else { jf },
            0x06 => return k,
            other => panic!("operation {other:#x}"),
        }
    }
}

/// A profile as one convention reads it, rule by rule.
pub(super) struct Reading<'a> {
    abi: Abi,
    default: u32,
    newest: Option<u32>,
    /// Each call's rules in order.
    rules: HashMap<u32, Vec<&'a LinuxSyscall>>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(profile: &'a LinuxSeccomp, abi: Abi) -> Self {
        let table = abi.table();
        let mut rules: HashMap<u32, Vec<&LinuxSyscall>> = HashMap::new();
        let mut newest = None;
        for rule in profile.syscalls().iter().flatten() {
            for number in rule.names().iter().filter_map(|name| table.number(name)) {
                newest = newest.max(Some(number).filter(|number| *number < 0x1_0000));
                rules.entry(number).or_default().push(rule);
            }
            for number in rule.names().iter().filter_map(|name| abi.second_number(name)) {
                rules.entry(number).or_default().push(rule);
            }
        }
        let default = word(profile.default_action(), profile.default_errno_ret());
        Self { abi, default, newest, rules }
    }

    /// What it means for one call.
    pub(super) fn meant(&self, number: u32, args: [u64; 6]) -> u32 {
        let number = match self.abi {
            Abi::X86_64 { x32: true } => number & !X32_BIT,
            Abi::X86_64 { x32: false } if number >= X32_BIT => return KILL,
            _ => number,
        };
        let Some(rules) = self.rules.get(&number) else {
            let open = [0x7fff_0000, 0x7ffc_0000, 0x7ff0_0000].contains(&(self.default & 0xffff_0000));
            let newer = self.newest.is_some_and(|newest| number > newest);
            return if newer && !open { ENOSYS } else { self.default };
        };
        let ret = |rule: &&LinuxSyscall| word(rule.action(), rule.errno_ret());
        let plain = rules.iter().find(|rule| rule.args().as_ref().is_none_or(Vec::is_empty));
        plain.or_else(|| rules.iter().find(|rule| fits(rule, args))).map_or(self.default, ret)
    }
}

/// The kernel's word for an answer, from its own header.
fn word(action: LinuxSeccompAction, errno: Option<u32>) -> u32 {
    let errno = errno.unwrap_or(1);
    match action {
        LinuxSeccompAction::ScmpActKill | LinuxSeccompAction::ScmpActKillThread => 0,
        LinuxSeccompAction::ScmpActKillProcess => KILL,
        LinuxSeccompAction::ScmpActTrap => 0x0003_0000,
        LinuxSeccompAction::ScmpActErrno => 0x0005_0000 | errno,
        LinuxSeccompAction::ScmpActNotify => 0x7fc0_0000,
        LinuxSeccompAction::ScmpActTrace => 0x7ff0_0000 | errno,
        LinuxSeccompAction::ScmpActLog => 0x7ffc_0000,
        LinuxSeccompAction::ScmpActAllow => ALLOW,
    }
}

fn fits(rule: &LinuxSyscall, args: [u64; 6]) -> bool {
    let conditions = rule.args().as_ref().unwrap();
    let holds = |arg: &LinuxSeccompArg| {
        let is = args[arg.index()];
        match arg.op() {
            LinuxSeccompOperator::ScmpCmpNe => is != arg.value(),
            LinuxSeccompOperator::ScmpCmpLt => is < arg.value(),
            LinuxSeccompOperator::ScmpCmpLe => is <= arg.value(),
            LinuxSeccompOperator::ScmpCmpEq => is == arg.value(),
            LinuxSeccompOperator::ScmpCmpGe => is >= arg.value(),
            LinuxSeccompOperator::ScmpCmpGt => is > arg.value(),
            LinuxSeccompOperator::ScmpCmpMaskedEq => is & arg.value() == arg.value_two().unwrap_or(0),
        }
    };
    let mut indices: Vec<usize> = conditions.iter().map(LinuxSeccompArg::index).collect();
    indices.sort_unstable();
    indices.dedup();
    if indices.len() < conditions.len() { conditions.iter().any(holds) } else { conditions.iter().all(holds) }
}

pub(super) fn profile(json: &str) -> LinuxSeccomp {
    serde_json::from_str(json).unwrap()
}

fn default_profile(capabilities: &[&str]) -> LinuxSeccomp {
    profile(&berth_core::profile::seccomp_default(capabilities).to_json().unwrap())
}

fn on_x86(profile: &LinuxSeccomp) -> Program {
    compile_for(profile, "x86_64").unwrap()
}

#[test]
fn the_default_profile_is_small_and_means_what_it_says() {
    for capabilities in [berth_core::profile::DEFAULT_CAPABILITIES, &["CAP_SYS_ADMIN", "CAP_BPF"], &[]] {
        let profile = default_profile(capabilities);
        let program = on_x86(&profile);
        let count = program.bytes().len() / 8;
        assert!(count < 300, "{count} instructions");
        let values =
            [0, 1, 8, 38, 39, 40, 41, 45, 46, 0x2_0000, 0x1000_0000, 0xffff_ffff, 1 << 32, (1 << 32) + 38];
        for (arch, abi) in [(X86_64, Abi::X86_64 { x32: true }), (I386, Abi::X86)] {
            let reading = Reading::new(&profile, abi);
            for number in (0..600).chain([X32_BIT - 1, X32_BIT, X32_BIT + 5, X32_BIT + 520, u32::MAX]) {
                for value in values {
                    let args = [value, 0, 0, 0, 0, 0];
                    let got = run(&program, arch, number, args);
                    assert_eq!(got, reading.meant(number, args), "{abi:?} {number} {value:#x}");
                }
            }
        }
    }
}

#[test]
fn the_default_profile_on_the_other_machine() {
    let mut profile = default_profile(berth_core::profile::DEFAULT_CAPABILITIES);
    profile.architectures =
        Some(vec![berth_core::oci::Arch::ScmpArchAarch64, berth_core::oci::Arch::ScmpArchArm]);
    let program = compile_for(&profile, "aarch64").unwrap();
    for (arch, abi) in [(AARCH64, Abi::Aarch64), (ARM, Abi::Arm)] {
        let reading = Reading::new(&profile, abi);
        for number in (0..480).chain([0xf_0001, 0xf_0002, 0xf_0005, 0xf_0006]) {
            for value in [0, 38, 0x1000_0000] {
                let got = run(&program, arch, number, [value; 6]);
                assert_eq!(got, reading.meant(number, [value; 6]), "{abi:?} {number}");
            }
        }
    }
    assert_eq!(run(&program, X86_64, 0, [0; 6]), KILL);
}

#[test]
fn what_everyone_expects_of_the_default_profile() {
    let program = on_x86(&default_profile(berth_core::profile::DEFAULT_CAPABILITIES));
    let call = |number, first| run(&program, X86_64, number, [first, 0, 0, 0, 0, 0]);
    let (read, clone, mount, socket, clone3, unshare, io_uring) = (0, 56, 165, 41, 435, 272, 425);
    assert_eq!(call(read, 0), ALLOW);
    assert_eq!(call(mount, 0), EPERM);
    assert_eq!(call(unshare, 0), EPERM);
    assert_eq!(call(io_uring, 0), EPERM);
    assert_eq!(call(clone, 17), ALLOW);
    assert_eq!(call(clone, 0x1000_0011), EPERM);
    assert_eq!(call(clone3, 0), ENOSYS);
    assert_eq!((call(socket, 1), call(socket, 38), call(socket, 40)), (ALLOW, EPERM, EPERM));
    assert_eq!(call(socket, (1 << 32) | 38), EPERM);
    assert_eq!(call(466, 0), ALLOW, "removexattrat is the newest one named");
    assert_eq!(call(467, 0), ENOSYS, "newer than the profile");
    assert_eq!(call(0x4000_0000 | 520, 0), ALLOW, "execve of x32");
    assert_eq!(run(&program, AARCH64, 0, [0; 6]), KILL);
}

#[test]
fn a_rule_without_conditions_is_the_whole_answer() {
    let program = on_x86(&profile(
        r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[
            {"names":["dup"],"action":"SCMP_ACT_ERRNO","errnoRet":5,"args":[{"index":0,"value":7,"op":"SCMP_CMP_EQ"}]},
            {"names":["dup"],"action":"SCMP_ACT_ALLOW"},
            {"names":["dup"],"action":"SCMP_ACT_KILL_PROCESS"}]}"#,
    ));
    assert_eq!(run(&program, X86_64, 32, [7, 0, 0, 0, 0, 0]), ALLOW);
}

#[test]
fn socketcall_and_ipc_follow_the_calls_behind_them() {
    let program = on_x86(&profile(
        r#"{"defaultAction":"SCMP_ACT_ERRNO","architectures":["SCMP_ARCH_X86"],"syscalls":[
            {"names":["connect","semop","accept"],"action":"SCMP_ACT_ALLOW"}]}"#,
    ));
    let call = |number, first| run(&program, I386, number, [first, 0, 0, 0, 0, 0]);
    assert_eq!((call(102, 3), call(102, 5), call(102, 1)), (ALLOW, ALLOW, EPERM));
    assert_eq!((call(117, 1), call(117, 0x1_0001), call(117, 2)), (ALLOW, ALLOW, EPERM));
}

#[test]
fn flags_listeners_and_unknown_names() {
    let notify = r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["SECCOMP_FILTER_FLAG_TSYNC","SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"],
        "syscalls":[{"names":["mkdir","no_such_call"],"action":"SCMP_ACT_NOTIFY"}]}"#;
    let program = on_x86(&profile(notify));
    assert!(program.wants_listener());
    assert_eq!(program.flags(), FLAG_TSYNC | FLAG_TSYNC_ESRCH | FLAG_NEW_LISTENER | FLAG_WAIT_KILLABLE);
    assert_eq!(Program::from_kept(&program.kept()).as_ref(), Some(&program));
    assert_eq!(Program::from_kept(&program.kept()[..program.kept().len() - 1]), None);
    assert_eq!(Program::from_kept(&program.kept()[..8]), None);
    let plain = on_x86(&profile(&notify.replace("NOTIFY", "LOG")));
    assert_eq!(plain.flags(), FLAG_TSYNC);
    assert_eq!(on_x86(&profile(r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#)).flags(), FLAG_SPEC_ALLOW);
}

#[test]
fn bad_values_are_named_by_their_place() {
    for (json, place) in [
        (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, "defaultAction"),
        (r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":4096}"#, "defaultErrnoRet"),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["write"],"action":"SCMP_ACT_NOTIFY"}]}"#,
            "syscalls[0].action",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["getpid","sendmsg"],"action":"SCMP_ACT_NOTIFY"}]}"#,
            "syscalls[0].action",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["dup"],"action":"SCMP_ACT_LOG",
                "args":[{"index":6,"value":1,"op":"SCMP_CMP_EQ"}]}]}"#,
            "syscalls[0].args[0].index",
        ),
    ] {
        match compile(&profile(json)) {
            Err(CompileError::Invalid { place: got, .. }) => assert_eq!(got, place),
            other => panic!("{other:?}"),
        }
    }
}

const ACTIONS: [&str; 8] = ["ALLOW", "ERRNO", "KILL", "KILL_THREAD", "KILL_PROCESS", "TRAP", "TRACE", "LOG"];
const OPERATORS: [&str; 7] = ["NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"];

fn some_value() -> impl Strategy<Value = u64> {
    prop_oneof![0..4u64, (0..4u64, 0..4u64).prop_map(|(high, low)| high << 32 | low), any::<u64>()]
}

fn some_rule() -> impl Strategy<Value = String> {
    let arg =
        (0..3usize, some_value(), some_value(), 0..OPERATORS.len()).prop_map(|(index, value, two, op)| {
            let op = OPERATORS[op];
            format!(r#"{{"index":{index},"value":{value},"valueTwo":{two},"op":"SCMP_CMP_{op}"}}"#)
        });
    // Names that a table of each convention has, and that no multiplexer serves.
    let numbers = prop::collection::vec(0..470usize, 1..20);
    (numbers, 0..ACTIONS.len(), 0..4u32, prop::collection::vec(arg, 0..4)).prop_map(
        |(numbers, action, errno, args)| {
            let names: Vec<&str> = numbers
                .into_iter()
                .filter_map(syscalls::x86_64::Sysno::new)
                .map(|call| call.name())
                .filter(|name| Abi::X86.multiplexed(name).is_none() && !["socketcall", "ipc"].contains(name))
                .collect();
            let (names, action, args) = (names.join(r#"",""#), ACTIONS[action], args.join(","));
            format!(
                r#"{{"names":["{names}"],"action":"SCMP_ACT_{action}","errnoRet":{errno},"args":[{args}]}}"#
            )
        },
    )
}

fn some_profile() -> impl Strategy<Value = LinuxSeccomp> {
    let rules = prop::collection::vec(some_rule(), 0..12);
    (rules, 0..ACTIONS.len(), any::<bool>()).prop_map(|(rules, action, x32)| {
        let (rules, action) = (rules.join(","), ACTIONS[action]);
        let x32 = if x32 { r#","SCMP_ARCH_X32""# } else { "" };
        profile(&format!(
            r#"{{"defaultAction":"SCMP_ACT_{action}","architectures":["SCMP_ARCH_X86"{x32}],"syscalls":[{rules}]}}"#
        ))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_program_decides_as_the_profile_says(
        profile in some_profile(),
        args in prop::collection::vec((some_value(), some_value(), some_value()), 6),
    ) {
        let program = on_x86(&profile);
        let x32 = profile.architectures().as_ref().unwrap().len() == 2;
        for (arch, abi) in [(X86_64, Abi::X86_64 { x32 }), (I386, Abi::X86)] {
            let reading = Reading::new(&profile, abi);
            for number in (0..560).chain([X32_BIT, X32_BIT + 520, u32::MAX]) {
                for (a, b, c) in &args {
                    let args = [*a, *b, *c, 0, 0, 0];
                    prop_assert_eq!(
                        run(&program, arch, number, args),
                        reading.meant(number, args),
                        "{:?} {} {:?}", abi, number, args
                    );
                }
            }
        }
    }
}
