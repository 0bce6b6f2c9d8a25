//! Names, ids and namespaces that the program sees.

use super::row::{Row, row};
use serde_json::json;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [plain(), more()].into_iter().flatten().collect()
}

fn plain() -> Vec<Row> {
    vec![
        row("plain output and exit code").sh("echo out; echo err >&2; exit 7").same(&["out\nerr\n[exit 7]"]),
        row("hostname").args(&["hostname"]).same(&["bundle\n"]),
        row("user and groups")
            .change(|spec, _| {
                spec["process"]["user"] = json!({"uid": 1000, "gid": 1001, "additionalGids": [5, 50]});
            })
            .sh("grep -E '^(Uid|Gid|Groups):' /proc/self/status")
            .same(&["1000\t1000", "Groups:\t5 50"]),
        row("user 4294967295")
            .change(|spec, _| spec["process"]["user"]["uid"] = json!(u32::MAX))
            .args(&["id", "-u"])
            .refused(&["process.user"]),
        row("pids limit")
            .needs("pids")
            .change(|spec, _| spec["linux"]["resources"]["pids"] = json!({"limit": 77}))
            .see(|bundle| {
                bundle.must("create", &[])?;
                bundle.cgroup_file(&["pids.max"])
            })
            .same(&["77"]),
    ]
}

fn more() -> Vec<Row> {
    vec![
        row("file systems of the base")
            .prepare(|bundle| Ok(std::fs::create_dir(bundle.rootfs().join("extra"))?))
            .args(&["awk", "$2 !~ /cgroup/ {print $2, $3, $4}", "/proc/self/mounts"])
            .normal(|bundle, ran| {
                let seen = ran.seen(bundle);
                let masked = |line: &&str| line.contains("devtmpfs") || line.contains("nr_inodes");
                seen.lines()
                    .filter(|line| !masked(line) && !line.contains("/proc/"))
                    .collect::<Vec<_>>()
                    .join("\n")
            })
            .same(&["/dev/pts devpts rw,nosuid,noexec,relatime,gid=5,mode=620,ptmxmode=666", "[exit 0]"]),
        row("the folder of the v1 hierarchies")
            .needs("v1")
            .args(&["grep", " /sys/fs/cgroup ", "/proc/self/mounts"])
            .differs(
                "tmpfs ro,",
                "tmpfs rw,",
                "the mount was asked to be read-only, so its own folder is as well",
            ),
        row("bad: args empty")
            .change(|spec, _| spec["process"]["args"] = json!([]))
            .refused(&["process.args"]),
        row("bad: cwd relative")
            .change(|spec, _| spec["process"]["cwd"] = json!("tmp"))
            .refused(&["process.cwd"]),
    ]
}
