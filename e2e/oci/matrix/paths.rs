//! Masked and read-only paths, devices, the terminal.

use super::row::{Row, row};
use berth_e2e::bundle::{Bundle, mount, push};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

/// The rows.
pub(crate) fn rows() -> Vec<Row> {
    [masked(), readonly(), default_devices(), devices(), bad(), more_bad()].into_iter().flatten().collect()
}

fn masks(paths: Value) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, _| spec["linux"]["maskedPaths"] = paths.clone()
}

fn masked() -> Vec<Row> {
    let secret = |bundle: &Bundle| {
        std::fs::create_dir(bundle.rootfs().join("secret"))?;
        std::fs::write(bundle.rootfs().join("secret/file"), "secret\n")?;
        std::fs::write(bundle.rootfs().join("key"), "secret\n")?;
        Ok(symlink("/secret", bundle.rootfs().join("link"))?)
    };
    vec![
        row("masked: a file")
            .prepare(secret)
            .change(masks(json!(["/key"])))
            .sh("cat /key; echo x > /key; stat -c %F /key")
            .same(&["character special file"]),
        row("masked: a folder")
            .prepare(secret)
            .change(masks(json!(["/secret"])))
            .sh("ls -A /secret; touch /secret/x; awk '$2 == \"/secret\" {print $3, substr($4, 1, 2)}' /proc/self/mounts")
            .same(&["Read-only", "tmpfs ro"]),
        row("masked: one that is missing").change(masks(json!(["/none/at/all"]))).args(&["ls", "/mnt"]).same(&["[exit 0]"]),
        row("masked: below a file").prepare(secret).change(masks(json!(["/key/x"]))).args(&["true"]).differs("[exit 0]", "not a directory", "what is not there cannot be read, as with one that is missing"),
        row("masked: a link is followed inside")
            .prepare(secret)
            .change(masks(json!(["/link"])))
            .sh("ls -A /secret; ls -A /link")
            .same(&["[exit 0]"]),
        row("masked: twice the same, and its inside")
            .prepare(secret)
            .change(masks(json!(["/secret", "/secret", "/secret/file"])))
            .sh("ls -A /secret; grep -c ' /secret ' /proc/self/mounts")
            .same(&["1\n[exit 0]"]),
        row("masked: the usual ones")
            .sh("head -c1 /proc/keys; head -c1 /proc/timer_list; ls /proc/acpi /sys/firmware; ls /proc/scsi 2>/dev/null; echo seen")
            .same(&["seen"]),
    ]
}

fn readonly() -> Vec<Row> {
    let only =
        |paths: Value| move |spec: &mut Value, _: &Bundle| spec["linux"]["readonlyPaths"] = paths.clone();
    vec![
        row("read-only: a folder with a mount of its own below")
            .change(|spec, _| {
                push(&mut spec["mounts"], mount("/mnt/in", "tmpfs", "tmpfs", &["nosuid"]));
                spec["linux"]["readonlyPaths"] = json!(["/mnt"]);
            })
            .sh("touch /mnt/x; touch /mnt/in/x; awk '$2 ~ \"^/mnt\" {print $2, $3, substr($4, 1, 9)}' /proc/self/mounts")
            .differs("/mnt/in tmpfs ro,nosuid", "/mnt/in tmpfs rw,nosuid\ntouch: /mnt/x", "nothing below a read-only path can be written, whatever is mounted there"),
        row("read-only: a file").change(only(json!(["/etc/passwd"]))).sh("echo x >> /etc/passwd").same(&["Read-only"]),
        row("read-only: one that is missing").change(only(json!(["/none"]))).args(&["true"]).same(&["[exit 0]"]),
        row("read-only: the flags of the mount below stay")
            .sh("awk '$2 == \"/proc/sys\" {print $4}' /proc/self/mounts; echo 1 > /proc/sys/vm/swappiness")
            .same(&["ro,relatime", "Read-only"]),
        row("read-only: proc keeps nosuid, nodev, noexec")
            .change(|spec, _| spec["mounts"][0]["options"] = json!(["nosuid", "noexec", "nodev"]))
            .sh("awk '$2 == \"/proc/sys\" || $2 == \"/proc\" {print $2, $4}' /proc/self/mounts")
            .same(&["/proc/sys ro,nosuid,nodev,noexec,relatime"]),
    ]
}

fn default_devices() -> Vec<Row> {
    vec![
        row("devices: the default ones")
            .sh("cd /dev; stat -c '%n %a %u:%g %F %t:%T' full null random tty urandom zero; ls | sort | tr '\\n' ' '")
            .same(&["null 666 0:0 character special file 1:3", "zero 666"]),
        row("devices: the default links")
            .sh("cd /dev; for l in fd stdin stdout stderr ptmx core; do echo $l $(readlink $l); done")
            .same(&["fd /proc/self/fd\n", "stdin /proc/self/fd/0\n", "ptmx pts/ptmx\n"]),
        row("devices: they work")
            .sh("echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; echo x > /dev/full")
            .same(&["3\n3\n", "[exit 1]"]),
        row("devices: nothing else can be opened")
            .change(|spec, _| push(&mut spec["linux"]["devices"], json!({"path": "/dev/kmsg2", "type": "c", "major": 1, "minor": 11})))
            .sh("head -c1 /dev/kmsg2; mknod /tmp/x c 1 3; echo $?; mknod /tmp/y c 5 99; echo $?; head -c 1 /tmp/y")
            .same(&["Operation not permitted"]),
        row("devices: one allowed by a rule")
            .change(|spec, _| {
                push(&mut spec["linux"]["devices"], json!({"path": "/dev/mine", "type": "c", "major": 1, "minor": 11}));
                let rule = json!({"allow": true, "type": "c", "major": 1, "minor": 11, "access": "w"});
                push(&mut spec["linux"]["resources"]["devices"], rule);
            })
            .sh("exec 3> /dev/mine && echo opened; head -c1 /dev/mine")
            .same(&["opened", "Operation not permitted"]),
    ]
}

fn device(spec: &mut Value, device: Value) {
    push(&mut spec["linux"]["devices"], device);
}

fn devices() -> Vec<Row> {
    vec![
        row("devices: mode and owner")
            .change(|spec, _| {
                device(spec, json!({"path": "/dev/fuse2", "type": "c", "major": 10, "minor": 229, "fileMode": 0o640, "uid": 5, "gid": 6}));
            })
            .sh("stat -c '%a %u:%g %F %t:%T' /dev/fuse2")
            .same(&["640 5:6 character special file a:e5"]),
        row("devices: without a mode")
            .change(|spec, _| device(spec, json!({"path": "/dev/x", "type": "c", "major": 1, "minor": 3})))
            .sh("stat -c '%a %u:%g' /dev/x")
            .same(&["0:0"]),
        row("devices: the umask of the caller changes nothing")
            .change(|spec, _| device(spec, json!({"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666})))
            .sh("stat -c %a /dev/x /dev/null")
            .same(&["666\n666"]),
        row("devices: a block device")
            .change(|spec, _| device(spec, json!({"path": "/dev/b", "type": "b", "major": 7, "minor": 200, "fileMode": 0o600})))
            .sh("stat -c '%a %F %t:%T' /dev/b")
            .same(&["600 block special file 7:c8"]),
        row("devices: unbuffered is a character device")
            .change(|spec, _| device(spec, json!({"path": "/dev/u", "type": "u", "major": 1, "minor": 3, "fileMode": 0o600})))
            .sh("stat -c '%a %F' /dev/u")
            .same(&["600 character special file"]),
        row("devices: a fifo")
            .change(|spec, _| device(spec, json!({"path": "/dev/p", "type": "p", "fileMode": 0o622, "uid": 3})))
            .sh("stat -c '%a %u %F' /dev/p")
            .same(&["622 3 fifo"]),
        row("devices: folders are made")
            .change(|spec, _| device(spec, json!({"path": "/dev/a/b/c", "type": "c", "major": 1, "minor": 3})))
            .sh("stat -c %F /dev/a/b/c")
            .same(&["character special file"]),
        row("devices: one that the rootfs has")
            .prepare(|bundle| Ok(std::fs::write(bundle.rootfs().join("node"), "")?))
            .change(|spec, _| device(spec, json!({"path": "/node", "type": "c", "major": 1, "minor": 3})))
            .sh("stat -c %F /node").differs("make device /node: something else is there", "regular empty file", "a file of the image is not to pass for a device"),
    ]
}

fn bad() -> Vec<Row> {
    vec![
        row("devices: an unknown type")
            .change(|spec, _| device(spec, json!({"path": "/dev/x", "type": "z", "major": 1, "minor": 3})))
            .refused(&["linux.devices[0]"]),
        row("devices: a relative path")
            .change(|spec, _| device(spec, json!({"path": "x", "type": "c", "major": 1, "minor": 3})))
            .see(|bundle| Ok(bundle.run()?.seen(bundle)))
            .same(&[]),
        row("devices: a path out of the root")
            .change(|spec, _| {
                device(
                    spec,
                    json!({"path": "/../../../tmp/berth-e2e-out", "type": "c", "major": 1, "minor": 3}),
                )
            })
            .sh("ls -d /tmp/berth-e2e-out; echo done")
            .see(|bundle| {
                let seen = bundle.run()?.seen(bundle);
                Ok(format!("{seen} outside: {}", std::path::Path::new("/tmp/berth-e2e-out").exists()))
            })
            .same(&["outside: false"]),
        row("devices: a rule of an unknown type")
            .change(|spec, _| {
                push(
                    &mut spec["linux"]["resources"]["devices"],
                    json!({"allow": true, "type": "z", "access": "r"}),
                )
            })
            .refused(&["linux.resources.devices[1]"]),
    ]
}

fn more_bad() -> Vec<Row> {
    vec![
        row("devices: a rule with an unknown access")
            .change(|spec, _| {
                push(
                    &mut spec["linux"]["resources"]["devices"],
                    json!({"allow": true, "type": "c", "access": "x"}),
                )
            })
            .differs("devices[1].access", "[exit 0]", "a rule that allows nothing is a slip of the pen"),
        row("masked: a relative path").change(masks(json!(["proc/keys"]))).args(&["true"]).differs(
            "linux.maskedPaths[0]",
            "[exit 0]",
            "the specification wants absolute paths; a mask that does not mask is a hole",
        ),
    ]
}
