//! Propagation of mounts and of the rootfs; the flags that a remount keeps.

use super::super::row::{Row, row};
use super::{bound, volume};
use serde_json::json;

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [mounts(), followers(), root()].into_iter().flatten().collect()
}

/// The propagation fields of a mount, without the numbers of its peer groups.
const KIND: &str = "awk '$5 == \"/v\" {for (i = 7; $i != \"-\"; i++) {sub(\":.*\", \"\", $i); printf \"%s \", $i}; print \"end\"}' /proc/self/mountinfo";

fn mounts() -> Vec<Row> {
    let one = |name: &'static str, options: &'static [&'static str], word: &'static str| {
        row(name).prepare(volume).change(bound(options)).sh(KIND).same(&[word])
    };
    vec![
        one("propagation: none given", &["rbind"], "end").needs("private-root"),
        one("propagation: private", &["bind", "private"], "end"),
        one("propagation: rprivate", &["rbind", "rprivate"], "end"),
        one("propagation: shared", &["bind", "shared"], "shared"),
        one("propagation: rshared", &["rbind", "rshared"], "shared"),
        one("propagation: slave", &["bind", "slave"], "end").needs("private-root"),
        one("propagation: rslave", &["rbind", "rslave"], "end").needs("private-root"),
        one("propagation: unbindable", &["bind", "unbindable"], "unbindable"),
        one("propagation: runbindable", &["rbind", "runbindable"], "unbindable"),
        one("propagation: two kinds in turn", &["rbind", "rprivate", "rshared"], "shared"),
    ]
}

/// Where the host's root is shared, as systemd makes it.
fn followers() -> Vec<Row> {
    let one = |name: &'static str, options: &'static [&'static str]| {
        let why = "what is mounted on the host arrives in the volume. runc makes the mount private in which the bundle lies, and \
                   the volume of this row lies in the same";
        row(name).needs("shared-root").prepare(volume).change(bound(options)).sh(KIND).differs(
            "master end",
            "end",
            why,
        )
    };
    vec![
        one("propagation: none given, of a shared mount", &["rbind"]),
        one("propagation: slave, of a shared mount", &["bind", "slave"]),
        one("propagation: rslave, of a shared mount", &["rbind", "rslave"]),
    ]
}

const ROOT: &str = "awk '$5 == \"/\" {for (i = 7; $i != \"-\"; i++) {sub(\":.*\", \"\", $i); printf \"%s \", $i}; print \"end\"}' /proc/self/mountinfo";

fn root() -> Vec<Row> {
    let one = |name: &'static str, kind: &'static str| {
        row(name).change(move |spec, _| spec["linux"]["rootfsPropagation"] = json!(kind)).sh(ROOT)
    };
    vec![
        row("root propagation: none given").sh(ROOT).same(&["end"]),
        one("root propagation: private", "private").same(&["end"]),
        one("root propagation: rprivate", "rprivate").same(&["end"]),
        one("root propagation: slave", "slave").same(&["end"]),
        one("root propagation: rslave", "rslave").same(&["end"]),
        one("root propagation: shared", "shared").same(&["shared"]),
        one("root propagation: rshared", "rshared").same(&["shared"]),
        one("root propagation: unbindable", "unbindable").same(&["unbindable"]),
        one("root propagation: runbindable", "runbindable").change(|spec, _| {
                spec["linux"]["readonlyPaths"] = json!([]);
                spec["linux"]["maskedPaths"] = json!([]);
            }).same(&["unbindable"]),
        one("root propagation: an unknown kind", "sideways").refused(&["linux.rootfsPropagation", "sideways"]),
        row("root: read-only")
            .change(|spec, _| spec["root"]["readonly"] = json!(true))
            .sh("touch /x; awk '$2 == \"/\" {print substr($4, 1, 2)}' /proc/self/mounts; touch /dev/x && echo dev")
            .same(&["Read-only", "ro\ndev"]),
    ]
}
