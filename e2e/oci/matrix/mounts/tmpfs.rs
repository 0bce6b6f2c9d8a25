//! New file systems: tmpfs with its options, mqueue, shm, proc, sysfs.

use super::super::row::{Row, row};
use super::add;
use std::os::unix::fs::PermissionsExt;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [tmpfs(), others()].into_iter().flatten().collect()
}

/// Type, options of the mount and of the file system at /t, and its mode.
const SHOWN: &str = "awk '$2 == \"/t\" {print $3, $4}' /proc/self/mounts; stat -c %a /t";

fn tmpfs() -> Vec<Row> {
    let one = |name: &'static str, options: &'static [&'static str]| {
        row(name).change(move |spec, _| add(spec, "/t", "tmpfs", "tmpfs", options)).sh(SHOWN)
    };
    vec![
        one("tmpfs: plain", &[]).same(&["tmpfs rw,relatime", "1777"]),
        one("tmpfs: nosuid, over a missing folder", &["nosuid"]).same(&["1777"]),
        one("tmpfs: over a folder that has a mode", &["nosuid"])
            .prepare(|bundle| {
                std::fs::create_dir(bundle.rootfs().join("t"))?;
                Ok(std::fs::set_permissions(bundle.rootfs().join("t"), PermissionsExt::from_mode(0o711))?)
            })
            .same(&["711"]),
        one("tmpfs: mode", &["mode=0700"]).same(&["700"]),
        one("tmpfs: sizes", &["size=64k", "nr_inodes=100"]).same(&["size=64k,nr_inodes=100"]),
        one("tmpfs: owner", &["uid=5", "gid=6", "mode=0750"]).same(&["uid=5,gid=6"]),
        one("tmpfs: read-only", &["ro"]).same(&["tmpfs ro"]),
        one("tmpfs: noatime", &["noatime", "noexec"]).same(&["noexec,noatime"]),
        row("tmpfs: full is full")
            .change(|spec, _| add(spec, "/t", "tmpfs", "tmpfs", &["size=64k"]))
            .sh("dd if=/dev/zero of=/t/x bs=1k count=100 2>/dev/null; stat -c %s /t/x")
            .same(&["65536"]),
        row("tmpfs: the source is its name")
            .change(|spec, _| add(spec, "/t", "tmpfs", "name-of-it", &[]))
            .sh("awk '$2 == \"/t\" {print $1}' /proc/self/mounts")
            .same(&["name-of-it"]),
        row("tmpfs: copy up")
            .prepare(|bundle| {
                std::fs::create_dir_all(bundle.rootfs().join("t/deep"))?;
                std::fs::write(bundle.rootfs().join("t/deep/file"), "copied\n")?;
                Ok(std::os::unix::fs::symlink("deep/file", bundle.rootfs().join("t/link"))?)
            })
            .change(|spec, _| add(spec, "/t", "tmpfs", "tmpfs", &["tmpcopyup"]))
            .sh("cat /t/link; readlink /t/link; touch /t/new && stat -f -c %T /t")
            .same(&["copied\ndeep/file\ntmpfs"]),
    ]
}

fn others() -> Vec<Row> {
    vec![
        row("mqueue: in an ipc namespace of its own")
            .sh("awk '$2 == \"/dev/mqueue\" {print $1, $3, $4}' /proc/self/mounts; touch /dev/mqueue/q && ls /dev/mqueue")
            .same(&["mqueue mqueue", "q\n"]),
        row("shm: size and mode").sh("df -k /dev/shm | awk 'NR == 2 {print $2}'; stat -c %a /dev/shm").same(&["65536\n1777"]),
        row("devpts: of its own").sh("stat -c '%a %t' /dev/ptmx; readlink /dev/ptmx; ls /dev/pts").same(&["pts/ptmx"]),
        row("proc: the container's own processes")
            .args(&["ls", "/proc"])
            .normal(|bundle, ran| ran.seen(bundle).lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect())
            .same(&["1"]),
        row("proc: hidepid")
            .change(|spec, _| spec["mounts"][0]["options"] = serde_json::json!(["hidepid=2"]))
            .sh("awk '$2 == \"/proc\" {print $4}' /proc/self/mounts")
            .same(&["hidepid=invisible"]),
        row("sysfs: read-only")
            .sh("touch /sys/x; awk '$2 == \"/sys\" {print $1, $3, $4}' /proc/self/mounts")
            .same(&["sysfs sysfs ro,nosuid,nodev,noexec,relatime"]),
        row("proc: the source is its name")
            .sh("awk '$2 == \"/proc\" {print $1, $3, $4}' /proc/self/mounts")
            .same(&["proc proc rw,relatime"]),
    ]
}
