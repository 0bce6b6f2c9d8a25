//! User namespaces and id-mapped mounts.

use super::row::{Row, row};
use anyhow::Result;
use berth_e2e::bundle::{Bundle, mount, push};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, chown};

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [mapped(), more_mapped(), idmapped(), more_idmapped(), bad()].into_iter().flatten().collect()
}

/// A user namespace with these mappings: container, host, size.
pub(super) fn user(spec: &mut Value, mappings: &[(u32, u32, u32)]) {
    push(&mut spec["linux"]["namespaces"], json!({"type": "user"}));
    let list = maps(mappings);
    spec["linux"]["uidMappings"] = list.clone();
    spec["linux"]["gidMappings"] = list;
}

fn maps(mappings: &[(u32, u32, u32)]) -> Value {
    let one = |&(inside, host, size): &(u32, u32, u32)| json!({"containerID": inside, "hostID": host, "size": size});
    mappings.iter().map(one).collect()
}

/// The rootfs belongs to the mapped root.
pub(super) fn give(bundle: &Bundle) -> Result<()> {
    let mut todo = vec![bundle.rootfs()];
    while let Some(path) = todo.pop() {
        std::os::unix::fs::lchown(&path, Some(100_000), Some(100_000))?;
        if path.is_dir() && !path.is_symlink() {
            todo.extend(std::fs::read_dir(&path)?.flatten().map(|entry| entry.path()));
        }
    }
    // The way there has to be open to the mapped root.
    std::fs::set_permissions(bundle.dir(), std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

pub(super) const ONE: &[(u32, u32, u32)] = &[(0, 100_000, 65536)];

fn in_user(name: &'static str) -> Row {
    row(name).prepare(give).change(|spec, _| user(spec, ONE))
}

fn mapped() -> Vec<Row> {
    vec![
        in_user("users: one mapping")
            .sh("cat /proc/self/uid_map /proc/self/gid_map | tr -s ' '; id; cat /proc/self/setgroups; touch /x && ls -ln /x | awk '{print $3}'")
            .same(&["0 100000 65536", "allow", "uid=0"]),
        row("users: several mappings")
            .prepare(give)
            .change(|spec, _| user(spec, &[(0, 100_000, 1), (1, 200_000, 999), (1000, 300_000, 5)]))
            .sh("tr -s ' ' < /proc/self/uid_map; tr -s ' ' < /proc/self/gid_map")
            .same(&["0 100000 1\n", "1 200000 999\n", "1000 300000 5\n"]),
        in_user("users: another user than root inside")
            .change(|spec, _| spec["process"]["user"] = json!({"uid": 7, "gid": 8, "additionalGids": [9]}))
            .args(&["id"])
            .same(&["uid=7 gid=8 groups=9\n"]),
        in_user("users: a user that is not mapped")
            .change(|spec, _| spec["process"]["user"] = json!({"uid": 70_000, "gid": 0}))
            .refused(&["70000"]),
        in_user("users: full powers inside")
            .sh("grep CapEff /proc/self/status; hostname changed; hostname; ip link add b0 type bridge && echo bridge")
            .change(|spec, _| {
                for set in ["bounding", "effective", "permitted"] {
                    for cap in ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"] {
                        push(&mut spec["process"]["capabilities"][set], json!(cap));
                    }
                }
            })
            .same(&["changed\nbridge"]),
        in_user("users: devices are bound")
            .sh("ls -l /dev/null /dev/zero /dev/tty | awk '{print $1, $3, $4, $5, $6, $NF}'; echo x > /dev/null && echo written")
            .same(&["written"]),
        in_user("users: file systems inside")
            .args(&["awk", "$2 !~ /cgroup|proc.|sys.|dev.[a-oq-z]/ {print $2, $3}", "/proc/self/mounts"])
            .same(&["/proc proc", "/sys sysfs", "/dev/pts devpts"]),
    ]
}

fn more_mapped() -> Vec<Row> {
    vec![
        in_user("users: the host's network under a user namespace")
            .change(|spec, _| {
                if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
                    list.retain(|n| n["type"] != "network");
                }
                spec["mounts"][5] = mount("/sys", "none", "/sys", &["rbind", "nosuid", "noexec", "nodev", "ro"]);
            })
            .sh("ls /sys | head -1; ls /sys/class/net | grep -c lo")
            .same(&["1\n[exit 0]"]),
        in_user("users: a cgroup mount is read-only and mapped")
            .sh("ls /sys/fs/cgroup > /dev/null && echo listed; grep -c cgroup /proc/self/mounts > /dev/null && echo there")
            .same(&["listed\nthere"]),
    ]
}

/// A folder with a file of user 500.
fn volume(bundle: &Bundle) -> Result<()> {
    std::fs::create_dir(bundle.path("vol"))?;
    std::fs::write(bundle.path("vol/file"), "x")?;
    chown(bundle.path("vol/file"), Some(500), Some(600))?;
    Ok(())
}

const OWNER: &str = "stat -c '%u %g' /v/file";

fn bound(bundle: &Bundle, options: &[&str]) -> Value {
    mount("/v", "bind", &bundle.text("vol"), options)
}

fn idmapped() -> Vec<Row> {
    let with_maps = |options: &'static [&'static str], mappings: &'static [(u32, u32, u32)]| {
        move |spec: &mut Value, bundle: &Bundle| {
            let mut mount = bound(bundle, options);
            mount["uidMappings"] = maps(mappings);
            mount["gidMappings"] = maps(mappings);
            push(&mut spec["mounts"], mount);
        }
    };
    vec![
        in_user("idmap: a volume shows its own owners without")
            .prepare(volume)
            .change(|spec, bundle| push(&mut spec["mounts"], bound(bundle, &["rbind"])))
            .sh(OWNER)
            .same(&["65534 65534"]),
        in_user("idmap: by the container's own mapping")
            .prepare(volume)
            .change(|spec, bundle| push(&mut spec["mounts"], bound(bundle, &["rbind", "idmap"])))
            .sh(OWNER)
            .same(&["500 600"]),
        in_user("idmap: recursive")
            .prepare(volume)
            .change(|spec, bundle| push(&mut spec["mounts"], bound(bundle, &["rbind", "ridmap"])))
            .sh("stat -c '%u %g' /v/file; touch /v/new; stat -c %u /v/new")
            .same(&["500 600\n0\n"]),
        row("idmap: mappings of its own, no user namespace")
            .prepare(volume)
            .change(with_maps(&["bind", "idmap"], &[(500, 77, 1), (600, 88, 1)]))
            .sh(OWNER)
            .same(&["77 88\n"]),
        row("idmap: mappings of its own imply it")
            .prepare(volume)
            .change(with_maps(&["bind"], &[(0, 1000, 1000)]))
            .sh(OWNER)
            .same(&["1500 1600"]),
    ]
}

fn more_idmapped() -> Vec<Row> {
    let with_maps = |options: &'static [&'static str], mappings: &'static [(u32, u32, u32)]| {
        move |spec: &mut Value, bundle: &Bundle| {
            let mut mount = bound(bundle, options);
            mount["uidMappings"] = maps(mappings);
            mount["gidMappings"] = maps(mappings);
            push(&mut spec["mounts"], mount);
        }
    };
    vec![
        in_user("idmap: mappings of its own inside a user namespace")
            .prepare(volume)
            .change(with_maps(&["rbind"], &[(500, 100_007, 200)]))
            .sh(OWNER)
            .same(&["7 107"]),
        row("idmap: without mappings and without a user namespace")
            .prepare(volume)
            .change(|spec, bundle| push(&mut spec["mounts"], bound(bundle, &["bind", "idmap"])))
            .refused(&["mounts[7]"]),
        row("idmap: a file system that cannot")
            .change(|spec, _| {
                let mut proc = mount("/v", "bind", "/proc/1", &["bind"]);
                proc["uidMappings"] = maps(&[(0, 1, 10)]);
                proc["gidMappings"] = maps(&[(0, 1, 10)]);
                push(&mut spec["mounts"], proc);
            })
            .refused(&["/v"]),
        row("idmap: of a new file system")
            .change(|spec, _| {
                let mut tmpfs = mount("/v", "tmpfs", "tmpfs", &[]);
                tmpfs["uidMappings"] = maps(&[(0, 1, 10)]);
                tmpfs["gidMappings"] = maps(&[(0, 1, 10)]);
                push(&mut spec["mounts"], tmpfs);
            })
            .refused(&["mounts[7]"]),
    ]
}

fn bad() -> Vec<Row> {
    vec![
        row("users: a namespace without mappings")
            .change(|spec, _| push(&mut spec["linux"]["namespaces"], json!({"type": "user"})))
            .refused(&["linux.uidMappings"]),
        row("users: mappings without a namespace")
            .change(|spec, _| spec["linux"]["uidMappings"] = maps(ONE))
            .differs(
                "linux.uidMappings",
                "[exit 0]",
                "who asks for mappings and gets none is root on the host",
            ),
        row("users: overlapping mappings")
            .prepare(give)
            .change(|spec, _| user(spec, &[(0, 100_000, 10), (5, 200_000, 10)]))
            .refused(&["linux.uidMappings"]),
        row("users: a mapping of nothing")
            .prepare(give)
            .change(|spec, _| user(spec, &[(0, 100_000, 0)]))
            .refused(&["linux.uidMappings"]),
        row("users: a negative id")
            .change(|spec, _| {
                user(spec, ONE);
                spec["linux"]["uidMappings"][0]["hostID"] = json!(-1);
            })
            .refused(&["linux.uidMappings[0].hostID"]),
    ]
}
