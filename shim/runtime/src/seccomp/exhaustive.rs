//! Every call of every convention, under every action, operator and kind of profile: the program against the plain reading.

use berth_core::oci::LinuxSeccomp;

use super::abi::{Abi, X32_BIT};
use super::compile_for;
use super::interpreter::{AARCH64, ARM, I386, Reading, X86_64, profile, run};

const KILL_PROCESS: u32 = 0x8000_0000;

/// A machine, the architectures that a profile for it names, and the conventions with their audit words that are then open.
type Machine = (&'static str, &'static str, &'static [(u32, Abi)]);

const MACHINES: [Machine; 6] = [
    ("x86_64", "", &[(X86_64, Abi::X86_64 { x32: false })]),
    ("x86_64", r#""SCMP_ARCH_X86""#, &[(X86_64, Abi::X86_64 { x32: false }), (I386, Abi::X86)]),
    (
        "x86_64",
        r#""SCMP_ARCH_X86_64","SCMP_ARCH_X86","SCMP_ARCH_X32""#,
        &[(X86_64, Abi::X86_64 { x32: true }), (I386, Abi::X86)],
    ),
    ("x86_64", r#""SCMP_ARCH_X32""#, &[(X86_64, Abi::X86_64 { x32: true })]),
    ("aarch64", "", &[(AARCH64, Abi::Aarch64)]),
    ("aarch64", r#""SCMP_ARCH_AARCH64","SCMP_ARCH_ARM""#, &[(AARCH64, Abi::Aarch64), (ARM, Abi::Arm)]),
];

const AUDIT: [u32; 6] = [X86_64, I386, AARCH64, ARM, 0, 0xc000_00f3];

/// Every number that any table has, those around them, and those of ARM's own and of x32.
fn numbers() -> impl Iterator<Item = u32> {
    let high = [0xf_0000, 0xf_0001, 0xf_0005, 0xf_0006, X32_BIT - 1, u32::MAX];
    (0..700).chain(high).chain((0..600).map(|n| X32_BIT | n))
}

/// Compares for every number, audit word and first argument.
fn compare(profile: &LinuxSeccomp, machine: &str, open: &[(u32, Abi)], values: &[u64]) {
    let program = compile_for(profile, machine).unwrap();
    let readings: Vec<_> = open.iter().map(|(audit, abi)| (*audit, Reading::new(profile, *abi))).collect();
    for audit in AUDIT {
        let reading = readings.iter().find(|(word, _)| *word == audit).map(|(_, reading)| reading);
        for number in numbers() {
            for value in values {
                let args = [*value, !*value, value.rotate_left(32), 0, 1, u64::MAX];
                let got = run(&program, audit, number, args);
                let meant = reading.map_or(KILL_PROCESS, |reading| reading.meant(number, args));
                assert_eq!(got, meant, "{machine} {audit:#x} {number} {args:x?}");
            }
        }
    }
}

fn architectures(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(r#""architectures":[{text}],"#) }
}

/// Names of calls that no multiplexer serves.
fn names(step: usize) -> Vec<&'static str> {
    let all = (0..470usize).filter_map(syscalls::x86_64::Sysno::new).map(|call| call.name());
    let plain =
        all.filter(|name| Abi::X86.multiplexed(name).is_none() && !["socketcall", "ipc"].contains(name));
    plain.step_by(step).collect()
}

#[test]
fn every_action_with_every_errno_form_for_every_call() {
    let actions = ["ALLOW", "ERRNO", "KILL", "KILL_THREAD", "KILL_PROCESS", "TRAP", "TRACE", "LOG", "NOTIFY"];
    for (machine, archs, open) in MACHINES {
        for default in &actions[..8] {
            for (at, action) in actions.iter().enumerate() {
                // A listener may not be asked about the calls that the runtime itself still needs.
                let rest = names(3).into_iter().filter(|name| *action != "NOTIFY" || name.starts_with("mk"));
                let errno = [String::new(), format!(r#","errnoRet":{}"#, at * 511)][at % 2].clone();
                let text = format!(
                    r#"{{"defaultAction":"SCMP_ACT_{default}","defaultErrnoRet":{},{}"syscalls":[
                        {{"names":["{}"],"action":"SCMP_ACT_{action}"{errno}}},
                        {{"names":["no_such_call","getppid"],"action":"SCMP_ACT_ERRNO","errnoRet":0}}]}}"#,
                    at * 455,
                    architectures(archs),
                    rest.collect::<Vec<_>>().join(r#"",""#)
                );
                compare(&profile(&text), machine, open, &[0]);
            }
        }
    }
}

#[test]
fn every_operator_at_every_argument_around_its_edges() {
    let edges =
        [0, 1, 7, 8, 9, 0xffff_ffff, 1 << 32, (1 << 32) + 7, (7 << 32) + 8, 1 << 63, u64::MAX - 1, u64::MAX];
    for op in ["NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"] {
        for index in 0..6 {
            for value in [0, 8, 0xffff_ffff, (1 << 32) + 7, u64::MAX] {
                let text = format!(
                    r#"{{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{{"names":["dup","mount","personality"],
                        "action":"SCMP_ACT_ALLOW","args":[
                            {{"index":{index},"value":{value},"valueTwo":{},"op":"SCMP_CMP_{op}"}}]}}]}}"#,
                    value & 0x5_0000_0008
                );
                let profile = profile(&text);
                for (machine, audit, abi) in
                    [("x86_64", X86_64, Abi::X86_64 { x32: false }), ("aarch64", AARCH64, Abi::Aarch64)]
                {
                    let (program, reading) =
                        (compile_for(&profile, machine).unwrap(), Reading::new(&profile, abi));
                    for number in 0..300 {
                        for edge in edges {
                            let mut args = [0; 6];
                            args[index] = edge;
                            let got = run(&program, audit, number, args);
                            assert_eq!(
                                got,
                                reading.meant(number, args),
                                "{op} {index} {value} {number} {edge}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn calls_newer_than_the_profile_are_unknown_and_older_ones_are_not() {
    for (machine, archs, open) in MACHINES {
        for (default, newer) in
            [("ERRNO", true), ("KILL", true), ("TRAP", true), ("ALLOW", false), ("LOG", false)]
        {
            let text = format!(
                r#"{{"defaultAction":"SCMP_ACT_{default}",{}"syscalls":[{{"names":["openat2"],"action":"SCMP_ACT_ALLOW"}}]}}"#,
                architectures(archs)
            );
            let profile = profile(&text);
            let program = compile_for(&profile, machine).unwrap();
            for (audit, abi) in open {
                let bit = if matches!(abi, Abi::X86_64 { x32: true }) { X32_BIT } else { 0 };
                let call = |number: u32| run(&program, *audit, number | bit, [0; 6]);
                // openat2 is 437 everywhere, close_range 436 and pidfd_getfd 438.
                assert_eq!(call(437), 0x7fff_0000, "{machine} {abi:?}");
                assert_eq!(call(438) == 0x0005_0026, newer, "{machine} {abi:?} {default}: {:#x}", call(438));
                assert_ne!(call(436), 0x0005_0026, "{machine} {abi:?} {default}");
            }
            compare(&profile, machine, open, &[0, u64::MAX]);
        }
    }
}
