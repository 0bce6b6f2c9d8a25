//! What a profile says of each call of one convention.
//!
//! A rule without conditions is the whole answer for its calls, wherever it stands; of conditional rules the first
//! that fits decides, and what fits none gets the default action. Conditions of one rule must all hold, except that
//! two on the same argument mean "either": profiles of the field are written against compilers that cannot do
//! otherwise.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::oci::{
    LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompOperator, LinuxSyscall,
};

use super::CompileError;
use super::abi::Abi;

/// Return words of the kernel.
pub(super) const RET_KILL_PROCESS: u32 = 0x8000_0000;
pub(super) const RET_ERRNO: u32 = 0x0005_0000;
const RET_KILL_THREAD: u32 = 0;
const RET_TRAP: u32 = 0x0003_0000;
const RET_NOTIFY: u32 = 0x7fc0_0000;
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_LOG: u32 = 0x7ffc_0000;
const RET_ALLOW: u32 = 0x7fff_0000;

/// 32-bit ARM has calls of its own from 0xf0000 on.
const FIRST_PRIVATE: u32 = 0x1_0000;
const ENOSYS: u32 = 38;
const EPERM: u32 = 1;
/// The kernel caps error numbers here.
const HIGHEST_ERRNO: u32 = 4095;

/// One comparison of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Condition {
    pub(super) index: u8,
    pub(super) op: Operator,
    pub(super) value: u64,
}

/// Comparisons, over 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Equal after this mask.
    Masked(u64),
}

/// Conditional rules of one call, in order, and what happens when none fits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Choice {
    pub(super) rules: Vec<(Vec<Condition>, u32)>,
    pub(super) otherwise: u32,
}

/// The answer for one call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Decision {
    Always(u32),
    Depends(Choice),
}

/// The answers of one convention: what is not listed gets the default, up to the newest call that the profile names.
pub(super) struct Answers {
    pub(super) calls: BTreeMap<u32, Decision>,
    pub(super) default: u32,
    /// The answer for numbers above `newest`.
    pub(super) newer: u32,
    pub(super) newest: Option<u32>,
}

/// The default action, and what calls newer than the profile get. A profile that denies by default was written before
/// they existed and means nothing by its silence: ENOSYS lets a C library use the older call.
pub(super) fn defaults(profile: &LinuxSeccomp) -> Result<(u32, u32), CompileError> {
    let action = profile.default_action();
    if action == LinuxSeccompAction::ScmpActNotify {
        return Err(invalid("defaultAction", "a listener cannot be asked by default: it could never start"));
    }
    let default = word(action, profile.default_errno_ret(), "defaultErrnoRet")?;
    let open = matches!(
        action,
        LinuxSeccompAction::ScmpActAllow | LinuxSeccompAction::ScmpActLog | LinuxSeccompAction::ScmpActTrace
    );
    Ok((default, if open { default } else { RET_ERRNO | ENOSYS }))
}

/// Reads a profile for one convention.
pub(super) fn answers(profile: &LinuxSeccomp, abi: Abi) -> Result<Answers, CompileError> {
    let (default, newer) = defaults(profile)?;
    let table = abi.table();
    let mut all = Answers { calls: BTreeMap::new(), default, newer, newest: None };
    for (at, rule) in profile.syscalls().iter().flatten().enumerate() {
        let ret = action_word(at, rule)?;
        let alternatives = alternatives(at, rule.args().as_deref().unwrap_or_default())?;
        for name in rule.names() {
            if let Some(number) = table.number(name) {
                all.note_newest(number);
                all.add(number, &alternatives, ret);
                if let Some(second) = abi.second_number(name) {
                    all.add(second, &alternatives, ret);
                }
            }
            // Behind a multiplexer the arguments lie in memory: only rules without conditions can be told there.
            let Some(behind) = abi.multiplexed(name).filter(|_| alternatives.is_empty()) else { continue };
            if let Some(front) = table.number(behind.front) {
                all.note_newest(front);
                let op = Operator::Masked(behind.mask);
                all.add(front, &[vec![Condition { index: 0, op, value: behind.choice }]], ret);
            }
        }
    }
    Ok(all)
}

impl Answers {
    /// The answer for any number.
    pub(super) fn answer(&self, number: u32) -> Decision {
        match self.calls.get(&number) {
            Some(decision) => decision.clone(),
            None if self.newest.is_some_and(|newest| number > newest) => Decision::Always(self.newer),
            None => Decision::Always(self.default),
        }
    }

    /// Numbers far above the table are private to an architecture, and old.
    fn note_newest(&mut self, number: u32) {
        if number < FIRST_PRIVATE {
            self.newest = self.newest.max(Some(number));
        }
    }

    fn add(&mut self, number: u32, alternatives: &[Vec<Condition>], ret: u32) {
        let otherwise = self.default;
        let known = self
            .calls
            .entry(number)
            .or_insert_with(|| Decision::Depends(Choice { rules: Vec::new(), otherwise }));
        match known {
            Decision::Always(_) => {}
            Decision::Depends(_) if alternatives.is_empty() => *known = Decision::Always(ret),
            Decision::Depends(choice) => {
                choice.rules.extend(alternatives.iter().map(|conditions| (conditions.clone(), ret)));
            }
        }
    }

    /// Whether any answer asks a listener.
    pub(super) fn asks_listener(&self) -> bool {
        self.calls.values().any(|decision| match decision {
            Decision::Always(ret) => *ret == RET_NOTIFY,
            Decision::Depends(choice) => choice.rules.iter().any(|(_, ret)| *ret == RET_NOTIFY),
        })
    }
}

fn action_word(at: usize, rule: &LinuxSyscall) -> Result<u32, CompileError> {
    // What the runtime itself does between the filter and the program: while the agent has no descriptor yet, or has just got
    // it, nobody would answer.
    const OURS: [&str; 5] = ["capset", "prctl", "sendmsg", "sendto", "write"];
    let notify = rule.action() == LinuxSeccompAction::ScmpActNotify;
    if let Some(name) = rule.names().iter().find(|name| notify && OURS.contains(&name.as_str())) {
        let reason = format!("{name} cannot ask a listener: the runtime needs it to hand the listener over");
        return Err(invalid(format!("syscalls[{at}].action"), reason));
    }
    word(rule.action(), rule.errno_ret(), &format!("syscalls[{at}].errnoRet"))
}

fn word(action: LinuxSeccompAction, errno: Option<u32>, place: &str) -> Result<u32, CompileError> {
    let data = match action {
        LinuxSeccompAction::ScmpActErrno => (errno.unwrap_or(EPERM), HIGHEST_ERRNO),
        LinuxSeccompAction::ScmpActTrace => (errno.unwrap_or(EPERM), u32::from(u16::MAX)),
        _ => (0, 0),
    };
    if data.0 > data.1 {
        return Err(invalid(place, format!("{} is over {}", data.0, data.1)));
    }
    let ret = match action {
        LinuxSeccompAction::ScmpActKill | LinuxSeccompAction::ScmpActKillThread => RET_KILL_THREAD,
        LinuxSeccompAction::ScmpActKillProcess => RET_KILL_PROCESS,
        LinuxSeccompAction::ScmpActTrap => RET_TRAP,
        LinuxSeccompAction::ScmpActErrno => RET_ERRNO,
        LinuxSeccompAction::ScmpActNotify => RET_NOTIFY,
        LinuxSeccompAction::ScmpActTrace => RET_TRACE,
        LinuxSeccompAction::ScmpActLog => RET_LOG,
        LinuxSeccompAction::ScmpActAllow => RET_ALLOW,
    };
    Ok(ret | data.0)
}

/// The conditions of a rule as alternatives; none if it has none.
fn alternatives(at: usize, args: &[LinuxSeccompArg]) -> Result<Vec<Vec<Condition>>, CompileError> {
    let conditions: Vec<Condition> = args
        .iter()
        .enumerate()
        .map(|(position, arg)| condition(arg, &format!("syscalls[{at}].args[{position}]")))
        .collect::<Result<_, _>>()?;
    let indices: BTreeSet<u8> = conditions.iter().map(|one| one.index).collect();
    Ok(match conditions.len() {
        0 => Vec::new(),
        many if many > indices.len() => conditions.into_iter().map(|one| vec![one]).collect(),
        _ => vec![conditions],
    })
}

fn condition(arg: &LinuxSeccompArg, place: &str) -> Result<Condition, CompileError> {
    let index = u8::try_from(arg.index()).ok().filter(|index| *index < 6);
    let index =
        index.ok_or_else(|| invalid(format!("{place}.index"), "a system call has arguments 0 to 5"))?;
    let (op, value) = match arg.op() {
        LinuxSeccompOperator::ScmpCmpEq => (Operator::Equal, arg.value()),
        LinuxSeccompOperator::ScmpCmpNe => (Operator::NotEqual, arg.value()),
        LinuxSeccompOperator::ScmpCmpLt => (Operator::Less, arg.value()),
        LinuxSeccompOperator::ScmpCmpLe => (Operator::LessEqual, arg.value()),
        LinuxSeccompOperator::ScmpCmpGt => (Operator::Greater, arg.value()),
        LinuxSeccompOperator::ScmpCmpGe => (Operator::GreaterEqual, arg.value()),
        LinuxSeccompOperator::ScmpCmpMaskedEq => {
            (Operator::Masked(arg.value()), arg.value_two().unwrap_or(0))
        }
    };
    Ok(Condition { index, op, value })
}

fn invalid(place: impl Into<String>, reason: impl Into<String>) -> CompileError {
    CompileError::Invalid { place: place.into(), reason: reason.into() }
}
