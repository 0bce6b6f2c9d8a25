//! `state`: one container as JSON.

use std::ffi::OsString;

use super::container::Container;
use super::{Global, OciError, flags};

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(&[], args)?;
    let shown = Container::load(global, flags.sole_id()?)?.shown();
    print_json(&shown)
}

/// Prints a value as indented JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), OciError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| OciError::Json { path: "output".to_owned(), error })?;
    println!("{text}");
    Ok(())
}
