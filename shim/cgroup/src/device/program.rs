//! Rules as an eBPF program of the kind `cgroup/dev`.
//!
//! The last rule that fits decides, so the program asks the rules from the last to the first. Access not yet decided
//! stays in a register: an allowing rule takes its bits away and lets the call through when none is left, a denying
//! rule that finds one of its bits there ends the matter. What no rule decides is denied.

use super::{ALL, Kind, Rule};

/// Registers.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const ACCESS: u8 = 2;
const KIND: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;
const SCRATCH: u8 = 6;

/// Operations used, as the kernel's instruction set encodes them.
const LOAD_WORD: u8 = 0x61;
const MOVE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_NOT_EQUAL: u8 = 0x55;
const EXIT: u8 = 0x95;

/// Sorts of device as the kernel numbers them.
const BLOCK: i32 = 1;
const CHAR: i32 = 2;

#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    value: i32,
}

/// The program for a list of rules, 8 bytes an instruction, in native order.
pub fn assemble(rules: &[Rule]) -> Vec<u64> {
    let mut program = vec![
        load(ACCESS, 0),
        load(MAJOR, 4),
        load(MINOR, 8),
        Instruction { from: ACCESS, ..op(MOVE_REGISTER, KIND, 0) },
        op(AND, KIND, 0xffff),
        op(SHIFT_RIGHT, ACCESS, 16),
    ];
    let mut open = true;
    for rule in rules.iter().rev() {
        program.extend(block(*rule));
        if rule.kind == Kind::Any {
            // It fits everything: the rules before it are never asked.
            open = false;
            break;
        }
    }
    if open {
        program.extend(end_with(0));
    }
    program.iter().map(encode).collect()
}

/// The instructions of one rule; a request that does not fit falls out at their end.
fn block(rule: Rule) -> Vec<Instruction> {
    let mut tests: Vec<Instruction> = Vec::new();
    match rule.kind {
        Kind::Any => {}
        Kind::Block => tests.push(op(JUMP_NOT_EQUAL, KIND, BLOCK)),
        Kind::Char => tests.push(op(JUMP_NOT_EQUAL, KIND, CHAR)),
    }
    for (register, number) in [(MAJOR, rule.major), (MINOR, rule.minor)] {
        if let Some(number) = number {
            tests.push(op(JUMP_NOT_EQUAL, register, number.cast_signed()));
        }
    }
    let mut body: Vec<Instruction> = Vec::new();
    match (rule.allow, rule.access) {
        (_, ALL) => {}
        (true, access) => {
            body.push(op(AND, ACCESS, i32::from(ALL & !access)));
            tests_to_skip(&mut body, JUMP_NOT_EQUAL, ACCESS);
        }
        (false, access) => {
            body.push(Instruction { from: ACCESS, ..op(MOVE_REGISTER, SCRATCH, 0) });
            body.push(op(AND, SCRATCH, i32::from(access)));
            tests_to_skip(&mut body, JUMP_EQUAL, SCRATCH);
        }
    }
    body.extend(end_with(i32::from(rule.allow)));
    let tail = body.len();
    let count = tests.len();
    for (at, test) in tests.iter_mut().enumerate() {
        test.offset = jump(count - at - 1 + tail);
    }
    tests.extend(body);
    tests
}

/// Jumps over the two instructions of the verdict.
fn tests_to_skip(body: &mut Vec<Instruction>, code: u8, register: u8) {
    body.push(Instruction { offset: 2, ..op(code, register, 0) });
}

fn end_with(verdict: i32) -> [Instruction; 2] {
    [op(MOVE, RESULT, verdict), op(EXIT, 0, 0)]
}

fn load(register: u8, offset: i16) -> Instruction {
    Instruction { code: LOAD_WORD, to: register, from: CONTEXT, offset, value: 0 }
}

fn op(code: u8, register: u8, value: i32) -> Instruction {
    Instruction { code, to: register, from: 0, offset: 0, value }
}

/// Jumps never leave a rule's few instructions.
fn jump(distance: usize) -> i16 {
    i16::try_from(distance).unwrap_or(i16::MAX)
}

fn encode(instruction: &Instruction) -> u64 {
    let registers = if cfg!(target_endian = "little") {
        instruction.from << 4 | instruction.to
    } else {
        instruction.to << 4 | instruction.from
    };
    let mut bytes = [0; 8];
    bytes[0] = instruction.code;
    bytes[1] = registers;
    bytes[2..4].copy_from_slice(&instruction.offset.to_ne_bytes());
    bytes[4..].copy_from_slice(&instruction.value.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{MKNOD, READ, WRITE};
    use super::*;

    /// Runs a program as the kernel would, over the operations used here.
    fn run(program: &[u64], access: u32, kind: i32, major: u32, minor: u32) -> u64 {
        let context = [access << 16 | kind.cast_unsigned(), major, minor];
        let mut registers = [0u64; 7];
        let mut at = 0;
        loop {
            let bytes = program[at].to_le_bytes();
            let (to, from) = (usize::from(bytes[1] & 15), usize::from(bytes[1] >> 4));
            let offset = isize::from(i16::from_le_bytes([bytes[2], bytes[3]]));
            let value = i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as u64;
            let mut next = at as isize + 1;
            match bytes[0] {
                LOAD_WORD => registers[to] = u64::from(context[offset as usize / 4]),
                MOVE => registers[to] = value,
                MOVE_REGISTER => registers[to] = registers[from],
                AND => registers[to] &= value,
                SHIFT_RIGHT => registers[to] >>= value,
                JUMP_EQUAL if registers[to] == value => next += offset,
                JUMP_NOT_EQUAL if registers[to] != value => next += offset,
                JUMP_EQUAL | JUMP_NOT_EQUAL => {}
                EXIT => return registers[0],
                other => panic!("operation {other:#x}"),
            }
            at = next as usize;
        }
    }

    /// The rules as they are meant.
    fn meant(rules: &[Rule], access: u32, kind: i32, major: u32, minor: u32) -> bool {
        [MKNOD, READ, WRITE].into_iter().filter(|bit| access & u32::from(*bit) != 0).all(|bit| {
            let fits = |rule: &&Rule| {
                rule.access & bit != 0
                    && match rule.kind {
                        Kind::Any => true,
                        Kind::Block => kind == BLOCK,
                        Kind::Char => kind == CHAR,
                    }
                    && rule.major.is_none_or(|number| number == major)
                    && rule.minor.is_none_or(|number| number == minor)
            };
            rules.iter().rev().find(fits).is_some_and(|rule| rule.allow)
        })
    }

    fn some_rule() -> impl Strategy<Value = Rule> {
        let number = prop_oneof![Just(None), (0u32..4).prop_map(Some)];
        (any::<bool>(), 0..7u8, number.clone(), number, 1..=ALL).prop_map(
            |(allow, kind, major, minor, access)| match kind {
                0 => Rule { allow, kind: Kind::Any, major: None, minor: None, access: ALL },
                1..=3 => Rule { allow, kind: Kind::Block, major, minor, access },
                _ => Rule { allow, kind: Kind::Char, major, minor, access },
            },
        )
    }

    proptest! {
        #[test]
        fn the_program_decides_as_the_rules_say(rules in prop::collection::vec(some_rule(), 0..12)) {
            let program = assemble(&rules);
            for access in 1..=7 {
                for kind in [BLOCK, CHAR] {
                    for (major, minor) in (0..5).flat_map(|major| (0..5).map(move |minor| (major, minor))) {
                        prop_assert_eq!(
                            run(&program, access, kind, major, minor) == 1,
                            meant(&rules, access, kind, major, minor),
                            "access {} kind {} {}:{}", access, kind, major, minor
                        );
                    }
                }
            }
        }
    }
}
