//! Mounts: every option, propagation, targets and sources of every form.

mod bind;
mod propagation;
mod target;
mod tmpfs;

use super::row::{Row, row};
use anyhow::Result;
use berth_e2e::bundle::{Bundle, mount, push};
use serde_json::{Value, json};

/// The rows.
pub(crate) fn rows() -> Vec<Row> {
    [bind::rows(), tmpfs::rows(), propagation::rows(), target::rows(), bad(), more_bad()]
        .into_iter()
        .flatten()
        .collect()
}

/// A folder with a file, beside the rootfs.
fn volume(bundle: &Bundle) -> Result<()> {
    std::fs::create_dir_all(bundle.path("vol/sub"))?;
    std::fs::write(bundle.path("vol/file"), "content\n")?;
    Ok(())
}

/// Adds a mount.
fn add(spec: &mut Value, destination: &str, kind: &str, source: &str, options: &[&str]) {
    push(&mut spec["mounts"], mount(destination, kind, source, options));
}

/// Adds a bind mount of the volume at /v.
fn bound(options: &'static [&'static str]) -> impl Fn(&mut Value, &Bundle) + Send + Sync + 'static {
    move |spec, bundle| add(spec, "/v", "bind", &bundle.text("vol"), options)
}

/// The options of one mount point, as the kernel shows them.
const AT_V: &str = "awk '$5 == \"/v\" {print $6}' /proc/self/mountinfo";

/// The same with those of what is mounted below.
const BELOW_V: &str = "awk '$5 ~ \"^/v\" {print $5, $6}' /proc/self/mountinfo";

fn bad() -> Vec<Row> {
    vec![
        row("mounts: a source that is missing")
            .change(|spec, _| add(spec, "/v", "bind", "/no/such/source", &["bind"]))
            .refused(&["/no/such/source"]),
        row("mounts: an unknown file system")
            .change(|spec, _| add(spec, "/v", "nosuchfs", "none", &[]))
            .refused(&["nosuchfs", "/v"]),
        row("mounts: an option the file system does not know")
            .change(|spec, _| add(spec, "/v", "tmpfs", "tmpfs", &["nonsense=1"]))
            .refused(&["/v", "nonsense"]),
        row("mounts: a NUL in the destination")
            .change(|spec, _| add(spec, "/v\0w", "tmpfs", "tmpfs", &[]))
            .refused(&["mounts[7].destination"]),
        row("mounts: a NUL in the source")
            .change(|spec, _| add(spec, "/v", "bind", "/tmp\0x", &["bind"]))
            .refused(&["mounts[7].source"]),
        row("mounts: a NUL in an option")
            .change(|spec, _| add(spec, "/v", "tmpfs", "tmpfs", &["size=1\0k"]))
            .refused(&["mounts[7].options[0]"]),
        row("mounts: a line end in the destination")
            .change(|spec, _| add(spec, "/v\nw", "tmpfs", "tmpfs", &[]))
            .sh("ls -d /v*; grep -c '/v.012w' /proc/self/mountinfo")
            .same(&["1\n"]),
        row("mounts: no destination")
            .change(|spec, _| push(&mut spec["mounts"], json!({"type": "tmpfs", "source": "tmpfs"})))
            .refused(&["mounts[7]"]),
        row("mounts: an empty destination")
            .change(|spec, _| add(spec, "", "tmpfs", "tmpfs", &[]))
            .refused(&["mounts[7].destination"]),
        row("mounts: over the root")
            .change(|spec, _| add(spec, "/", "tmpfs", "tmpfs", &[]))
            .refused(&["mounts[7].destination"]),
        row("mounts: a proc elsewhere is the host's")
            .change(|spec, _| add(spec, "/proc/x", "tmpfs", "tmpfs", &[]))
            .refused(&["/proc/x"]),
    ]
}

fn more_bad() -> Vec<Row> {
    vec![
        row("mounts: a value that the file system does not take")
            .change(|spec, _| add(spec, "/v", "tmpfs", "memory", &["ro", "size=nonsense"]))
            .refused(&["/v", "type tmpfs", "source memory", "ro,size=nonsense"]),
        row("mounts: a device that is none")
            .prepare(volume)
            .change(|spec, bundle| add(spec, "/v", "ext4", &bundle.text("vol/file"), &["noload"]))
            .refused(&["/v", "type ext4", "vol/file", "noload"]),
        row("mounts: an options list that is none")
            .change(|spec, _| spec["mounts"][0]["options"] = json!("ro"))
            .refused(&["mounts[0].options"]),
    ]
}
