//! Files that somebody else put where we look.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads a file, and nothing that only looks like one: whoever opens a FIFO waits for ever.
pub(crate) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file =
        File::options().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
}
