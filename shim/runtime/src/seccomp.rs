//! Seccomp profiles compiled to a filter, without a library.
//!
//! [`compile`] takes the profile of a bundle and gives the instructions for seccomp(2), which `berth_sys::seccomp`
//! installs. The kernel translates a filter to machine code when it is installed, so the size of the program is the
//! price of a start: numbers with the same answer become ranges, and the range is found by bisection.

mod abi;
mod emit;
#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod installed;
#[cfg(test)]
mod interpreter;
mod rules;
mod search;

use std::fmt;

use berth_core::oci::{LinuxSeccomp, LinuxSeccompFilterFlag};

use abi::{Abi, X32_BIT};
use emit::{AT_ARCH, AT_NUMBER, Builder, Instruction, JUMP_EQUAL, JUMP_GREATER_EQUAL, Label};
use rules::{Answers, RET_KILL_PROCESS};

/// Bits of seccomp(2).
const FLAG_TSYNC: u32 = 1;
const FLAG_LOG: u32 = 1 << 1;
const FLAG_SPEC_ALLOW: u32 = 1 << 2;
const FLAG_NEW_LISTENER: u32 = 1 << 3;
const FLAG_TSYNC_ESRCH: u32 = 1 << 4;
const FLAG_WAIT_KILLABLE: u32 = 1 << 5;

/// The kernel's bound on a filter's length.
const LONGEST: usize = 4096;

/// A compiled filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    bytes: Vec<u8>,
    flags: u32,
    listener: bool,
}

impl Program {
    /// The instructions: native-endian `struct sock_filter`s, 8 bytes each.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// `SECCOMP_FILTER_FLAG_*` bits for seccomp(2), the one for a listener among them.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether a rule asks a listener, so that installing gives a descriptor.
    pub fn wants_listener(&self) -> bool {
        self.listener
    }

    /// A form to keep beside a container, which [`Program::from_kept`] takes: flags, whether there is a listener, and the
    /// instructions.
    pub fn kept(&self) -> Vec<u8> {
        let head = u64::from(self.flags) | u64::from(self.listener) << 32;
        [&head.to_ne_bytes()[..], &self.bytes].concat()
    }

    /// The program of a kept form; none if that was cut short. The kernel checks the instructions.
    pub fn from_kept(kept: &[u8]) -> Option<Self> {
        let (head, bytes) = kept.split_first_chunk::<8>()?;
        let head = u64::from_ne_bytes(*head);
        let whole = !bytes.is_empty() && bytes.len().is_multiple_of(8) && head >> 33 == 0;
        whole.then(|| Self { bytes: bytes.to_vec(), flags: head as u32, listener: head >> 32 == 1 })
    }
}

/// Why a profile cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A value that seccomp cannot express.
    #[error(".{place}: {reason}")]
    Invalid {
        /// The JSON path below `linux.seccomp`.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel takes at most 4096 instructions.
    #[error(": the profile needs {0} instructions, the kernel takes 4096")]
    TooLong(usize),
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instructions", self.bytes.len() / 8)
    }
}

/// Compiles a profile for this machine. The same profile always gives the same program.
///
/// # Errors
/// Values out of range, with their place in the profile. Names that no convention has are passed over, as in the field.
pub fn compile(profile: &LinuxSeccomp) -> Result<Program, CompileError> {
    compile_for(profile, std::env::consts::ARCH)
}

fn compile_for(profile: &LinuxSeccomp, machine: &str) -> Result<Program, CompileError> {
    let abis = Abi::of_profile(profile.architectures().as_deref().unwrap_or_default(), machine);
    let mut sections: Vec<(Abi, Answers)> = Vec::new();
    for abi in abis {
        sections.push((abi, rules::answers(profile, abi)?));
    }
    let instructions = assemble(&sections);
    if instructions.len() > LONGEST {
        return Err(CompileError::TooLong(instructions.len()));
    }
    let listener = sections.iter().any(|(_, answers)| answers.asks_listener());
    Ok(Program {
        bytes: instructions.iter().flat_map(encode).collect(),
        flags: flags(profile, listener),
        listener,
    })
}

/// The whole program: which convention, then its search. A convention that the profile does not name is killed: its
/// numbers mean other calls.
fn assemble(sections: &[(Abi, Answers)]) -> Vec<Instruction> {
    let mut builder = Builder::default();
    let mut entries: Vec<(Abi, Label)> = Vec::new();
    for (abi, answers) in sections.iter().rev() {
        let mask = matches!(abi, Abi::X86_64 { x32: true }).then_some(!X32_BIT);
        let mut entry = search::emit(&mut builder, answers, mask);
        if matches!(abi, Abi::X86_64 { x32: false }) {
            let kill = builder.give(RET_KILL_PROCESS);
            entry = builder.branch(JUMP_GREATER_EQUAL, X32_BIT, kill, entry);
            entry = builder.load(AT_NUMBER, entry);
        }
        entries.push((*abi, entry));
    }
    let mut next = builder.give(RET_KILL_PROCESS);
    for (abi, entry) in entries {
        next = builder.branch(JUMP_EQUAL, abi.audit(), entry, next);
    }
    builder.load(AT_ARCH, next);
    builder.finish()
}

fn flags(profile: &LinuxSeccomp, listener: bool) -> u32 {
    // Without the field the mitigation of speculative store bypass stays off, as on kernels since 5.16 anyway.
    let named = profile.flags().as_deref().unwrap_or(&[LinuxSeccompFilterFlag::SeccompFilterFlagSpecAllow]);
    let mut bits = named.iter().fold(0, |bits, flag| {
        bits | match flag {
            LinuxSeccompFilterFlag::SeccompFilterFlagLog => FLAG_LOG,
            LinuxSeccompFilterFlag::SeccompFilterFlagTsync => FLAG_TSYNC,
            LinuxSeccompFilterFlag::SeccompFilterFlagSpecAllow => FLAG_SPEC_ALLOW,
            LinuxSeccompFilterFlag::SeccompFilterFlagWaitKillableRecv => FLAG_WAIT_KILLABLE,
        }
    });
    if listener {
        bits |= FLAG_NEW_LISTENER;
        // The call can return a descriptor or a thread's number, not either.
        bits |= if bits & FLAG_TSYNC != 0 { FLAG_TSYNC_ESRCH } else { 0 };
    } else {
        bits &= !FLAG_WAIT_KILLABLE;
    }
    bits
}

fn encode(instruction: &Instruction) -> [u8; 8] {
    let (code, k) = (instruction.code.to_ne_bytes(), instruction.k.to_ne_bytes());
    [code[0], code[1], instruction.jt, instruction.jf, k[0], k[1], k[2], k[3]]
}
