//! `create`: the container waits, this process ends, and the container passes to our parent or its subreaper.

use std::ffi::OsString;

use super::build::{FLAGS, build, preserved};
use super::{Global, OciError, flags};

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(FLAGS, args)?;
    let preserved = preserved(&flags)?;
    build(global, &flags, preserved, true).map(drop)
}
