//! The file under redb: space is taken from the disk when the file grows, so that a full disk is met there and not
//! in the middle of a write to pages that the file already has.

use redb::StorageBackend;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file whose growth is allocated at once.
#[derive(Debug)]
pub(crate) struct AllocatedFile {
    file: File,
}

impl AllocatedFile {
    pub(crate) fn new(file: File) -> Self {
        Self { file }
    }
}

impl StorageBackend for AllocatedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let now = self.file.metadata()?.len();
        if len > now {
            allocate(&self.file, now, len - now)?;
        }
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        crate::DISK.pass().map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        self.file.write_all_at(data, offset)
    }
}

/// Takes space from the disk. A file system without fallocate goes without.
pub(crate) fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, len) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        done => Ok(done?),
    }
}
