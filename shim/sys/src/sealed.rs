//! The runtime's own binary in a form that a container cannot write to: /proc/self/exe of an init leads there (CVE-2019-5736).

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, StatxFlags};

use crate::mount::{Change, attr, clone_tree, set_attributes};

/// Opens the program at `path` for execution by descriptor: through a detached read-only mount of that one file, or, where the
/// kernel cannot make one, as a sealed copy in memory. One per process is enough; all children share its pages.
///
/// # Errors
/// Those of opening the file, or of the copy.
pub fn sealed_exe(path: &Path) -> io::Result<OwnedFd> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    seal(file, path)
}

/// The program of this process, sealed; as it is when it was itself executed from a sealed descriptor.
///
/// # Errors
/// As [`sealed_exe`].
pub fn sealed_self() -> io::Result<OwnedFd> {
    let path = Path::new("/proc/self/exe");
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if is_detached_read_only(&file) || is_sealed_memory() { Ok(file) } else { seal(file, path) }
}

/// Whether the file lies on a read-only mount that is in no mount table, which only a mount of our own is. One of the host's may
/// be made writable later, under the feet of a container that holds the file open.
fn is_detached_read_only(file: &OwnedFd) -> bool {
    if !is_read_only(file) {
        return false;
    }
    let asked = StatxFlags::MNT_ID;
    let stat = rustix::fs::statx(file, c"", rustix::fs::AtFlags::EMPTY_PATH, asked);
    let Some(id) = stat.ok().filter(|s| s.stx_mask & asked.bits() != 0).map(|s| s.stx_mnt_id.to_string())
    else {
        return false;
    };
    let Ok(table) = std::fs::read_to_string("/proc/self/mountinfo") else { return false };
    table.lines().all(|line| line.split(' ').next() != Some(id.as_str()))
}

/// Whether this program was executed from memory with every seal set; they can be read through an open descriptor only.
fn is_sealed_memory() -> bool {
    let wanted = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    let file = rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    file.is_ok_and(|file| rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(wanted)))
}

fn seal(file: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    match read_only_mount(&file) {
        Ok(fd) => Ok(fd),
        Err(_) => memory_copy(path),
    }
}

/// A mount of just this file, read-only, that belongs to no mount namespace.
///
/// A detached mount as open_tree gives it still has a namespace of its own, and whoever has CAP_SYS_ADMIN in any user namespace and
/// a descriptor on it may make it writable again by mount_setattr: a container that executes /proc/self/exe has such a descriptor.
/// When the descriptor of open_tree is closed the kernel takes the mount out of that namespace; another one keeps it alive, and
/// what is in no namespace nobody can change.
///
/// # Errors
/// ENOSYS on kernels before 5.12, EPERM without CAP_SYS_ADMIN, EINVAL for a file on a detached mount, ENOENT without /proc.
pub fn read_only_mount(file: impl AsFd) -> io::Result<OwnedFd> {
    let tree = clone_tree(file, false)?;
    let change = Change { set: attr::RDONLY | attr::NOSUID | attr::NODEV, ..Change::default() };
    set_attributes(&tree, &change, false)?;
    let link = format!("/proc/self/fd/{}", tree.as_raw_fd());
    let kept = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let same = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|s| (s.st_dev, s.st_ino));
    // A /proc that is no procfs could lead anywhere.
    if same(&tree)? != same(&kept)? || !is_read_only(&kept) {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    drop(tree);
    Ok(kept)
}

fn is_read_only(file: &OwnedFd) -> bool {
    let read_only = |s: rustix::fs::StatVfs| s.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    rustix::fs::fstatvfs(file).is_ok_and(read_only)
}

/// A sealed copy of the file in memory.
///
/// # Errors
/// EACCES where the machine forbids executing from memory (vm.memfd_noexec=2).
pub fn memory_copy(path: &Path) -> io::Result<OwnedFd> {
    const F_SEAL_EXEC: u32 = 0x20;
    let mut source = File::open(path)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = match rustix::fs::memfd_create("berth", flags | MemfdFlags::EXEC) {
        Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create("berth", flags)?,
        other => other?,
    };
    let mut target = File::from(memory);
    io::copy(&mut source, &mut target)?;
    target.rewind()?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    if rustix::fs::fcntl_add_seals(&target, seals | SealFlags::from_bits_retain(F_SEAL_EXEC)).is_err() {
        rustix::fs::fcntl_add_seals(&target, seals)?;
    }
    Ok(target.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn try_write(fd: &OwnedFd) -> Result<(), Errno> {
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let file = rustix::fs::open(link, OFlags::WRONLY, Mode::empty())?;
        rustix::io::write(&file, b"x").map(drop)
    }

    #[test]
    fn a_sealed_mount_cannot_be_written() {
        let path = std::env::temp_dir().join(format!("berth-sealed-{}", std::process::id()));
        std::fs::copy("/bin/true", &path).expect("copy");
        let file = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).expect("open");
        if let Ok(fd) = read_only_mount(&file) {
            assert_eq!(try_write(&fd), Err(Errno::ROFS));
            // Nor can the mount be made writable again, which for a mount that open_tree made just so works.
            let writable = Change { clear: attr::RDONLY, ..Change::default() };
            let tree = clone_tree(&file, false).expect("clone");
            set_attributes(&tree, &Change { set: attr::RDONLY, ..Change::default() }, false).expect("set");
            set_attributes(&tree, &writable, false).expect("a plain detached mount can be changed");
            let error = set_attributes(&fd, &writable, false).expect_err("changed");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
            assert_eq!(try_write(&fd), Err(Errno::ROFS));
        }
        std::fs::remove_file(&path).expect("clean");
    }

    #[test]
    fn a_sealed_copy_cannot_be_written() {
        let fd = memory_copy(Path::new("/bin/true")).expect("copy");
        assert_eq!(try_write(&fd), Err(Errno::PERM));
    }
}
