//! The containers' output: pipes read without blocking, split into records, written to the log file; or captured.

pub(crate) mod buffers;
pub(crate) mod capture;
pub(crate) mod log_file;
pub(crate) mod pump;
pub(crate) mod source;
pub(crate) mod turns;
pub(crate) mod watched;
