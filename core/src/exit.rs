//! How a container's program ended.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The exit of a container, as it is journalled, reported and stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// 0-255; 128 + N when signal N ended it.
    pub code: u8,
    /// When its first process was reaped.
    pub at: Timestamp,
    /// The kernel killed one of its processes for lack of memory, and it did not end well.
    #[serde(default)]
    pub oom_killed: bool,
    /// Empty, or why no code of the program's own is known.
    #[serde(default)]
    pub cause: String,
}

/// The code of a container whose program could not be started.
pub const CODE_START_FAILED: u8 = 128;

/// The code of a container whose real end nobody saw.
pub const CODE_UNKNOWN: u8 = 255;

impl Exit {
    /// A program that ended, with what its memory controller counted over its whole life.
    #[must_use]
    pub fn ended(code: u8, at: Timestamp, oom_kills: u64) -> Self {
        Self { code, at, oom_killed: oom_kills > 0 && code != 0, cause: String::new() }
    }

    /// An exit without a code of the program's own.
    #[must_use]
    pub fn without_code(code: u8, at: Timestamp, cause: impl Into<String>) -> Self {
        Self { code, at, oom_killed: false, cause: cause.into() }
    }
}

/// What a shell would show for a process ended by `signal`.
#[must_use]
pub fn code_of_signal(signal: u8) -> u8 {
    128u8.saturating_add(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_end_is_no_oom_kill() {
        assert!(!Exit::ended(0, Timestamp(1), 3).oom_killed);
        assert!(!Exit::ended(1, Timestamp(1), 0).oom_killed);
        assert!(Exit::ended(1, Timestamp(1), 1).oom_killed);
        assert!(Exit::ended(code_of_signal(9), Timestamp(1), 1).oom_killed);
    }

    #[test]
    fn older_journals_are_read() {
        let exit: Exit = serde_json::from_str(r#"{"code":3,"at":7}"#).unwrap();
        assert_eq!(exit, Exit::ended(3, Timestamp(7), 0));
    }
}
