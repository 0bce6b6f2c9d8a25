//! Paths of the host that a container mounts: made when they are missing, looked at with a deadline.
//!
//! A dead network file system blocks whoever looks at it. Such a look must not take the daemon along: it is left
//! behind on its thread, and the error names the path.

use super::spec::BoundMount;
use super::{Mount, Propagation};
use crate::pod::{Error, Ground};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long one path may take.
const WITHIN: Duration = Duration::from_secs(20);

/// Makes sure that a mount's source is there, and gives it without symbolic links.
///
/// # Errors
/// Names the path, and says when it did not answer.
pub(super) async fn resolve(ground: &Arc<Ground>, mount: &Mount) -> Result<BoundMount, Error> {
    let (asked, host_path) = (mount.clone(), mount.host_path.clone());
    let look = ground.block("look at a host path", move || look(&asked));
    let late = || Error::Deadline {
        what: format!("looking at host path {host_path:?}"),
        seconds: WITHIN.as_secs(),
        hint: "; its file system does not answer",
    };
    tokio::time::timeout(WITHIN, look).await.map_err(|_| late())?
}

fn look(mount: &Mount) -> Result<BoundMount, Error> {
    let path = Path::new(&mount.host_path);
    let failed = |act: &str, error: std::io::Error| {
        Error::internal(
            format!("{act} host path {:?} for {:?}", mount.host_path, mount.container_path),
            error,
        )
    };
    if let Err(error) = std::fs::metadata(path) {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(path).map_err(|error| failed("make", error))?
            }
            _ => return Err(failed("look at", error)),
        }
    }
    let source = std::fs::canonicalize(path).map_err(|error| failed("resolve", error))?;
    let source = source.into_os_string().into_string();
    let source =
        source.map_err(|_| Error::invalid("config.mounts.host_path", "leads to a path that is not UTF-8"))?;
    propagation(mount, &source)?;
    Ok(BoundMount {
        source,
        destination: mount.container_path.clone(),
        readonly: mount.readonly,
        recursive: mount.recursive_read_only,
        propagation: mount.propagation,
        options: mount.options.clone(),
    })
}

/// Mounts can only travel from where the host's own mount lets them.
fn propagation(mount: &Mount, source: &str) -> Result<(), Error> {
    if mount.propagation == Propagation::Private {
        return Ok(());
    }
    let table = std::fs::read_to_string("/proc/self/mountinfo");
    let table = table.map_err(|error| Error::internal("read /proc/self/mountinfo", error))?;
    let Some((point, tags)) = mount_of(&table, source) else { return Ok(()) };
    let shared = tags.contains("shared:");
    let fine = match mount.propagation {
        Propagation::Bidirectional => shared,
        _ => shared || tags.contains("master:"),
    };
    let wanted =
        if mount.propagation == Propagation::Bidirectional { "a shared" } else { "a shared or slave" };
    match fine {
        true => Ok(()),
        false => {
            let problem = format!("path {source:?} is on {point:?}, which is not {wanted} mount");
            Err(Error::invalid("config.mounts.propagation", problem))
        }
    }
}

/// The mount that a path is on, and its optional fields.
fn mount_of<'a>(table: &'a str, path: &str) -> Option<(String, &'a str)> {
    let lines = table.lines().filter_map(|line| {
        let (head, _) = line.split_once(" - ")?;
        let mut fields = head.splitn(7, ' ');
        let point = unescape(fields.nth(4)?);
        let tags = fields.nth(1).unwrap_or("");
        let on = point == "/"
            || path == point
            || path.strip_prefix(&point).is_some_and(|rest| rest.starts_with('/'));
        on.then_some((point, tags))
    });
    // Of several mounts at one point, the last one is on top.
    lines.max_by_key(|(point, _)| point.len())
}

/// Spaces and the like stand as octal numbers in the mount table.
fn unescape(field: &str) -> String {
    let known = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    known.iter().fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:5 / /mnt/a\\040b rw shared:7 - tmpfs t rw
31 22 0:6 / /mnt/c rw master:3 - tmpfs t rw
32 22 0:6 / /mnt/c rw shared:9 master:3 - tmpfs t rw
";

    #[test]
    fn the_innermost_and_topmost_mount_counts() {
        assert_eq!(mount_of(TABLE, "/mnt/ax"), Some(("/".to_owned(), "")));
        assert_eq!(mount_of(TABLE, "/mnt/a b/x"), Some(("/mnt/a b".to_owned(), "shared:7")));
        assert_eq!(mount_of(TABLE, "/mnt/c"), Some(("/mnt/c".to_owned(), "shared:9 master:3")));
    }

    #[test]
    fn a_missing_path_is_made_and_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (made, link) = (dir.path().join("a/b"), dir.path().join("link"));
        std::os::unix::fs::symlink("a", &link).unwrap();
        let mount = |path: &Path| Mount {
            host_path: path.to_str().unwrap().to_owned(),
            container_path: "/x".into(),
            ..Mount::default()
        };
        look(&mount(&made)).unwrap();
        assert!(made.is_dir());
        let through = look(&mount(&link.join("b"))).unwrap();
        assert_eq!(Path::new(&through.source), made.canonicalize().unwrap());
    }
}
