//! Where mounts go: made, through links, nested, in order; never outside of the root.

use super::super::row::{Row, row};
use super::{add, volume};
use berth_e2e::bundle::Bundle;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [links(), order()].into_iter().flatten().collect()
}

fn at(destination: &'static str) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, bundle| add(spec, destination, "bind", &bundle.text("vol"), &["bind"])
}

fn linked(name: &'static str, link: &'static str, to: &'static str) -> Row {
    row(name).prepare(volume).prepare(move |bundle| Ok(symlink(to, bundle.rootfs().join(link))?))
}

fn links() -> Vec<Row> {
    vec![
        row("target: made, with all above it")
            .prepare(volume)
            .change(at("/a/b/c"))
            .sh("ls /a/b/c")
            .same(&["file"]),
        linked("target: below a link", "var/run", "/run")
            .change(at("/var/run/x/y"))
            .sh("ls /run/x/y")
            .same(&["file"]),
        linked("target: a link itself", "v", "/mnt").change(at("/v")).sh("ls /mnt").same(&["file"]),
        linked("target: a link with dots", "v", "../../../../../mnt")
            .change(at("/v"))
            .sh("ls /mnt")
            .same(&["file"]),
        linked("target: a dangling link", "v", "/srv/none")
            .change(at("/v"))
            .sh("ls /srv/none")
            .same(&["file"]),
        row("target: a dangling chain to a file")
            .prepare(volume)
            .prepare(|bundle| Ok(symlink("/usr/share/none", bundle.rootfs().join("etc/localtime"))?))
            .change(|spec, bundle| add(spec, "/etc/localtime", "bind", &bundle.text("vol/file"), &["bind"]))
            .sh("cat /usr/share/none")
            .same(&["content"]),
        linked("target: a link in a circle", "v", "v").change(at("/v/x")).refused(&["/v/x"]),
        linked("target: a relative destination", "unused", "/mnt")
            .change(at("mnt/x"))
            .sh("ls /mnt/x")
            .same(&["file"]),
        linked("target: dots in it", "unused", "/mnt")
            .change(at("/mnt/../../../../etc/x"))
            .sh("ls /etc/x")
            .same(&["file"]),
    ]
}

fn order() -> Vec<Row> {
    vec![
        row("order: one over the other")
            .prepare(volume)
            .change(|spec, bundle| {
                add(spec, "/v", "tmpfs", "tmpfs", &[]);
                add(spec, "/v/in", "bind", &bundle.text("vol"), &["bind"]);
                add(spec, "/v", "tmpfs", "tmpfs", &["size=4k"]);
            })
            .sh("ls /v; awk '$2 ~ \"^/v\" {print $2, $3}' /proc/self/mounts | sort")
            .same(&["/v tmpfs\n/v tmpfs\n"]),
        row("order: a file of /etc of one's own")
            .prepare(|bundle| Ok(std::fs::write(bundle.path("passwd"), "me:x:12345:0::/:/bin/sh\n")?))
            .change(|spec, bundle| {
                add(spec, "/etc/passwd", "bind", &bundle.text("passwd"), &["bind", "ro"]);
                spec["process"]["user"] = json!({"uid": 12345, "gid": 0});
            })
            .sh("id -un; cat /etc/passwd")
            .same(&["me\nme:x:12345"]),
        row("order: no mounts at all")
            .change(|spec, _| {
                spec["mounts"] = json!([]);
                spec["linux"]["maskedPaths"] = json!([]);
                spec["linux"]["readonlyPaths"] = json!([]);
            })
            .sh("ls /proc /sys; ls /dev | sort")
            .differs(
                "null\nptmx\n",
                "/proc/sys/kernel/cap_last_cap",
                "what the runtime needs of proc it mounts for itself",
            ),
    ]
}
