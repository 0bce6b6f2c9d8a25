//! `create`: the container waits, this process ends, and the container passes to our parent or its subreaper.

use std::ffi::OsString;

use super::build::{FLAGS, build};
use super::{Global, OciError, flags};

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(FLAGS, args)?;
    build(global, &flags, true).map(drop)
}
