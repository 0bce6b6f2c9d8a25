//! Paths of the host that a container names: made when they are missing, looked at with a deadline.

use super::spec::BoundMount;
use super::{Mount, Propagation};
use crate::blocking::Room;
use crate::pod::{Error, Ground};
use crate::probe::Wish;
use std::path::Path;
use std::sync::Arc;

/// Makes sure that a mount's source is there, and gives it without symbolic links.
///
/// # Errors
/// Names the path, and says when it did not answer.
pub(super) async fn resolve(ground: &Arc<Ground>, mount: &Mount) -> Result<BoundMount, Error> {
    let found = ground.blocking.host_path(Path::new(&mount.host_path), Wish::MakeDirectory).await;
    let found = found.map_err(|error| Error::step(format!("mount at {:?}", mount.container_path), &error))?;
    let source = found.into_os_string().into_string();
    let source =
        source.map_err(|_| Error::invalid("config.mounts.host_path", "leads to a path that is not UTF-8"))?;
    if mount.propagation != Propagation::Private {
        let (kind, source) = (mount.propagation, source.clone());
        ground.block_in(Room::Look, "look at the mount table", move || propagation(kind, &source)).await?;
    }
    Ok(BoundMount {
        source,
        destination: mount.container_path.clone(),
        readonly: mount.readonly,
        recursive: mount.recursive_read_only,
        propagation: mount.propagation,
        options: mount.options.clone(),
    })
}

/// Makes sure that something on the host answers before a thread of the daemon touches it.
///
/// # Errors
/// Names the path, when it does not answer. Whatever else is wrong with it is found by whoever uses it.
pub(super) async fn answers(ground: &Arc<Ground>, step: &str, path: &str) -> Result<(), Error> {
    match ground.blocking.host_path(Path::new(path), Wish::Look).await {
        Ok(_) | Err(crate::probe::ProbeError::Failed { .. }) => Ok(()),
        Err(silent) => Err(Error::step(step, &silent)),
    }
}

/// Mounts can only travel from where the host's own mount lets them.
fn propagation(kind: Propagation, source: &str) -> Result<(), Error> {
    let table = std::fs::read_to_string("/proc/self/mountinfo");
    let table = table.map_err(|error| Error::internal("read /proc/self/mountinfo", error))?;
    let Some((point, tags)) = mount_of(&table, source) else { return Ok(()) };
    let shared = tags.contains("shared:");
    let fine = match kind {
        Propagation::Bidirectional => shared,
        _ => shared || tags.contains("master:"),
    };
    let wanted = if kind == Propagation::Bidirectional { "a shared" } else { "a shared or slave" };
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
}
