//! What a confined worker can no longer do. A test program of its own, since confinement cannot be undone. Needs root.

use berth_image::unpack::confine::{confine, without_devices};
use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, openat};
use std::io::Read;
use std::os::fd::OwnedFd;

fn directory(path: &std::path::Path) -> OwnedFd {
    openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).expect("open a directory")
}

#[test]
fn a_confined_thread_has_its_tree_and_little_else() {
    let dir = tempfile::tempdir().expect("a directory").keep();
    let (parent, name) = (dir.parent().expect("a parent"), dir.file_name().expect("a name"));
    let (outside, tree_dir) = (directory(parent), directory(&dir));
    std::thread::spawn(move || {
        let mut status = std::fs::File::open("/proc/thread-self/status").expect("open own status");
        let root = without_devices(tree_dir).expect("a mount without devices");
        confine(&root, 1 << 40).expect("confine as root");
        let mut text = String::new();
        status.read_to_string(&mut text).expect("read own status");
        powers(&text);
        assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err());
        assert!(std::process::Command::new("/bin/true").status().is_err());
        assert_eq!(std::thread::spawn(|| 7).join().expect("threads are made"), 7);
        tree(&root);
    })
    .join()
    .expect("the confined thread");
    rustix::fs::unlinkat(&outside, name, rustix::fs::AtFlags::REMOVEDIR).expect("an empty directory");
}

fn powers(status: &str) {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, MKNOD, SETFCAP.
    let kept = 1u64 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 27 | 1 << 31;
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert_eq!(u64::from_str_radix(&field(set), 16).expect("a number"), kept, "{set}");
    }
    assert_eq!((field("CapInh:").trim_start_matches('0'), field("NoNewPrivs:").as_str()), ("", "1"));
    assert_eq!(field("Seccomp:"), "2");
}

/// No path leads out, and devices can be made but not opened.
fn tree(root: &OwnedFd) {
    for path in ["/etc", "/proc", "../etc", "/../../etc"] {
        assert!(!std::path::Path::new(path).exists(), "{path}");
    }
    assert!(openat(root, c"../etc", OFlags::DIRECTORY, Mode::empty()).is_err());
    // /dev/zero.
    mknodat(root, c"zero", FileType::CharacterDevice, Mode::RUSR, makedev(1, 5)).expect("make a device");
    let opened = std::fs::File::open("/zero").map_err(|error| error.kind());
    assert_eq!(opened.err(), Some(std::io::ErrorKind::PermissionDenied));
    std::fs::remove_file("/zero").expect("remove the device");
}
