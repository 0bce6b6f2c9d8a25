//! Resources of the runtime specification as writes to cgroup files.
//!
//! Planning is pure: [`v1::plan`] and [`v2::plan`] turn the resources into steps, and [`apply`] carries them out. Only
//! what the specification sets is written; zero means "not set" for sizes and shares, as it does in the field.

pub mod convert;

pub(crate) mod apply;
pub(crate) mod v1;
pub(crate) mod v2;

use crate::error::{CgroupError, Result};

/// Writes that belong together. They are made in order; if the kernel says EINVAL (two values bound each other, and
/// which may move first depends on what is there now), in the opposite order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step(pub(crate) Vec<Write>);

/// One value for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) controller: &'static str,
    pub(crate) file: String,
    /// Used if `file` does not exist.
    pub(crate) instead: Option<String>,
    pub(crate) value: String,
    /// A missing file or controller is no error: nothing is lost without it.
    pub(crate) optional: bool,
    pub(crate) undo: Undo,
}

/// How the former value is found and written back when a later step fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// The file's text is what was written.
    Whole,
    /// The file has a line for each device (or interface); `reset` is for the case that it had none.
    Line { key: String, reset: String },
    /// The file is flat keyed, but takes a bare value.
    Keyed(&'static str),
}

impl Step {
    pub(crate) fn one(write: Write) -> Self {
        Self(vec![write])
    }
}

impl Write {
    pub(crate) fn new(controller: &'static str, file: impl Into<String>, value: impl ToString) -> Self {
        Self {
            controller,
            file: file.into(),
            instead: None,
            value: value.to_string(),
            optional: false,
            undo: Undo::Whole,
        }
    }

    pub(crate) fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    pub(crate) fn or_to(self, file: &str) -> Self {
        Self { instead: Some(file.to_owned()), ..self }
    }

    pub(crate) fn undo(self, undo: Undo) -> Self {
        Self { undo, ..self }
    }
}

fn invalid(setting: impl Into<String>, reason: impl Into<String>) -> CgroupError {
    CgroupError::Invalid { setting: setting.into(), reason: reason.into() }
}

/// A limit of which zero means "not set".
fn given(value: Option<i64>) -> Option<i64> {
    value.filter(|value| *value != 0)
}

/// A huge page size as it stands in file names: `2MB`.
fn page_size(text: &str) -> Result<&str> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let known = ["KB", "MB", "GB"].contains(&unit) && !digits.is_empty();
    if known && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(text)
    } else {
        Err(invalid(format!("hugepageLimits.pageSize {text:?}"), "not a page size like 2MB"))
    }
}

/// A name that becomes part of a line (an interface, an RDMA device).
fn plain_word<'a>(setting: &str, text: &'a str) -> Result<&'a str> {
    if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(invalid(setting, format!("{text:?} is not one plain word")));
    }
    Ok(text)
}
