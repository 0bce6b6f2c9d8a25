//! The CRI log record, `<RFC 3339 time> <stream> <P|F> <bytes>\n`: splitting output into records and reading
//! them again. A line longer than the limit becomes pieces tagged P and a last one tagged F.

mod read;
mod split;
mod stamp;

pub use read::{ParseError, Record, parse};
pub use split::{DEFAULT_LINE_MAX, Splitter};

/// Which output of a program a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output, and all output of a terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The word in the record.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}
