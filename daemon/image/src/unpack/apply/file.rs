//! Regular files: data, holes, and attributes in the order that keeps set-id bits and capabilities.

use super::entry::Place;
use super::{Applier, ApplyError, meta};
use crate::unpack::tar::{Entry, Reader};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::rc::Rc;

impl Applier {
    pub(super) fn file<R: Read>(
        &mut self,
        tar: &mut Reader<R>,
        place: &Place<'_>,
        entry: &Entry,
    ) -> Result<(), ApplyError> {
        if entry.real_size > self.limits.max_file {
            return Err(ApplyError::Limit { what: "bytes in one file", limit: self.limits.max_file });
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (node, name) = (Rc::clone(&place.node), place.name);
        let make = || openat(&node.fd, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(self.make(place, "make file", make)?);
        match &entry.extents {
            None => self.copy(tar, &mut file, u64::MAX, place)?,
            Some(extents) => {
                let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
                for (offset, length) in extents {
                    file.seek(SeekFrom::Start(*offset))
                        .map_err(|error| ApplyError::kernel("seek", &place.path)(io(error)))?;
                    self.copy(tar, &mut file, *length, place)?;
                }
                file.set_len(entry.real_size)
                    .map_err(|error| ApplyError::kernel("set size", &place.path)(io(error)))?;
            }
        }
        self.counts.dropped_xattrs += meta::to_file(file.as_fd(), entry, &place.path)?;
        meta::times_of_file(&file, entry).map_err(ApplyError::kernel("set times", &place.path))
    }

    fn copy<R: Read>(
        &mut self,
        tar: &mut Reader<R>,
        file: &mut File,
        mut left: u64,
        place: &Place<'_>,
    ) -> Result<(), ApplyError> {
        let mut written: u64 = 0;
        while left > 0 {
            let want = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = tar.read(&mut self.buffer[..want])?;
            if got == 0 {
                break;
            }
            file.write_all(&self.buffer[..got]).map_err(|error| {
                ApplyError::kernel("write", &place.path)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
            })?;
            let got = u64::try_from(got).unwrap_or(0);
            written += got;
            left -= got;
        }
        self.counts.bytes += written.next_multiple_of(4096);
        Ok(())
    }
}
