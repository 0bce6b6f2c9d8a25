//! Instructions of classic BPF, built from the last to the first.
//!
//! Jumps go forward only and at most 255 instructions far. Building backwards, every target exists before the jump to
//! it is written, so its distance is known; a target too far gets a copy (a return) or a longer jump put before it.

use std::collections::HashMap;

use super::rules::{Choice, Condition, Operator};

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
pub(super) const JUMP_EQUAL: u16 = 0x15;
pub(super) const JUMP_GREATER: u16 = 0x25;
pub(super) const JUMP_GREATER_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Where things lie in `struct seccomp_data`.
pub(super) const AT_NUMBER: u32 = 0;
pub(super) const AT_ARCH: u32 = 4;
const AT_ARGS: u32 = 16;

/// Farthest jump of a condition. One less than the field holds: reaching one target may push the other one step away.
const FARTHEST: usize = 254;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u16,
    pub(super) jt: u8,
    pub(super) jf: u8,
    pub(super) k: u32,
}

/// A place in the program, counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Label(usize);

/// A program under construction.
#[derive(Default)]
pub(super) struct Builder {
    reversed: Vec<Instruction>,
    returns: HashMap<u32, Label>,
    choices: HashMap<Choice, Label>,
}

impl Builder {
    /// The program, first instruction first.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        self.reversed.reverse();
        self.reversed
    }

    fn push(&mut self, code: u16, k: u32) -> Label {
        self.reversed.push(Instruction { code, jt: 0, jf: 0, k });
        Label(self.reversed.len() - 1)
    }

    /// How many instructions lie between the next one to be written and `target`.
    fn distance(&self, target: Label) -> usize {
        self.reversed.len() - 1 - target.0
    }

    /// Loads a word and goes on at `then`.
    pub(super) fn load(&mut self, at: u32, then: Label) -> Label {
        self.follow(then);
        self.push(LOAD, at)
    }

    /// Masks the loaded word and goes on at `then`.
    pub(super) fn and(&mut self, mask: u32, then: Label) -> Label {
        self.follow(then);
        self.push(AND, mask)
    }

    /// Makes `target` what runs after the instruction that is written next.
    fn follow(&mut self, target: Label) {
        let distance = self.distance(target);
        if distance > 0 {
            match self.reversed[target.0] {
                there if there.code == RETURN => self.push(RETURN, there.k),
                _ => self.push(JUMP, u32::try_from(distance).unwrap_or(u32::MAX)),
            };
        }
    }

    /// A return with this word, near enough to be jumped to now.
    pub(super) fn give(&mut self, ret: u32) -> Label {
        match self.returns.get(&ret) {
            Some(label) if self.distance(*label) <= FARTHEST / 2 => *label,
            _ => {
                let label = self.push(RETURN, ret);
                self.returns.insert(ret, label);
                label
            }
        }
    }

    /// A place from which a condition can reach `target`.
    fn near(&mut self, target: Label) -> Label {
        if self.distance(target) < FARTHEST {
            return target;
        }
        let there = self.reversed[target.0];
        if there.code == RETURN {
            return self.give(there.k);
        }
        let distance = u32::try_from(self.distance(target)).unwrap_or(u32::MAX);
        self.push(JUMP, distance)
    }

    /// Goes to `yes` or `no` by comparing the loaded word with `k`.
    pub(super) fn branch(&mut self, code: u16, k: u32, yes: Label, no: Label) -> Label {
        if yes == no {
            return yes;
        }
        let (yes, no) = (self.near(yes), self.near(no));
        let (jt, jf) = (self.distance(yes), self.distance(no));
        self.reversed.push(Instruction {
            code,
            jt: u8::try_from(jt).unwrap_or(u8::MAX),
            jf: u8::try_from(jf).unwrap_or(u8::MAX),
            k,
        });
        Label(self.reversed.len() - 1)
    }

    /// The code of a call with conditional rules. Two calls with the same rules share it, as do two conventions: where
    /// the arguments lie does not depend on them.
    pub(super) fn choice(&mut self, choice: &Choice) -> Label {
        if let Some(label) = self.choices.get(choice) {
            return *label;
        }
        let mut next = self.give(choice.otherwise);
        for (conditions, ret) in choice.rules.iter().rev() {
            let mut entry = self.give(*ret);
            for condition in conditions.iter().rev() {
                entry = self.condition(*condition, entry, next);
            }
            next = entry;
        }
        self.choices.insert(choice.clone(), next);
        next
    }

    /// Compares an argument, the upper half first.
    fn condition(&mut self, condition: Condition, yes: Label, no: Label) -> Label {
        let Condition { index, op, value } = condition;
        match op {
            Operator::Equal => self.equal(index, u64::MAX, value, yes, no),
            Operator::NotEqual => self.equal(index, u64::MAX, value, no, yes),
            Operator::Masked(mask) => self.equal(index, mask, value, yes, no),
            Operator::Greater => self.order(index, JUMP_GREATER, value, yes, no),
            Operator::GreaterEqual => self.order(index, JUMP_GREATER_EQUAL, value, yes, no),
            Operator::Less => self.order(index, JUMP_GREATER_EQUAL, value, no, yes),
            Operator::LessEqual => self.order(index, JUMP_GREATER, value, no, yes),
        }
    }

    fn equal(&mut self, index: u8, mask: u64, value: u64, yes: Label, no: Label) -> Label {
        let mut entry = yes;
        for upper in [false, true] {
            let (mask, value) = (half(mask, upper), half(value, upper));
            if mask == 0 && value == 0 {
                continue;
            }
            entry = self.branch(JUMP_EQUAL, value, entry, no);
            if mask != u32::MAX {
                entry = self.and(mask, entry);
            }
            entry = self.load(argument(index, upper), entry);
        }
        entry
    }

    fn order(&mut self, index: u8, code: u16, value: u64, yes: Label, no: Label) -> Label {
        let lower = self.branch(code, half(value, false), yes, no);
        let lower = self.load(argument(index, false), lower);
        let equal = self.branch(JUMP_EQUAL, half(value, true), lower, no);
        let upper = self.branch(JUMP_GREATER, half(value, true), yes, equal);
        self.load(argument(index, true), upper)
    }
}

fn half(value: u64, upper: bool) -> u32 {
    let shifted = if upper { value >> 32 } else { value & u64::from(u32::MAX) };
    u32::try_from(shifted).unwrap_or(u32::MAX)
}

/// Where one half of an argument lies.
fn argument(index: u8, upper: bool) -> u32 {
    let upper_first = cfg!(target_endian = "big");
    AT_ARGS + 8 * u32::from(index) + if upper == upper_first { 0 } else { 4 }
}
