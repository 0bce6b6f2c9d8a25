//! The cgroup lines of a mount table.

use std::path::PathBuf;

/// Options of a v1 mount that are neither a controller nor a name.
const NOT_CONTROLLERS: [&str; 9] = [
    "rw",
    "ro",
    "xattr",
    "noprefix",
    "clone_children",
    "cpuset_v2_mode",
    "favordynmods",
    "nofavordynmods",
    "none",
];

/// One mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CgroupMount {
    pub(super) point: PathBuf,
    pub(super) controllers: Vec<String>,
    pub(super) unified: bool,
    whole: bool,
}

/// The hierarchies of a mount table, those mounted from their root first, otherwise in the table's order.
pub(super) fn cgroup_mounts(table: &str) -> Vec<CgroupMount> {
    let mut mounts: Vec<CgroupMount> = table.lines().filter_map(parse_line).collect();
    mounts.sort_by_key(|mount| !mount.whole);
    mounts
}

/// Where the first whole file system of a kind is mounted.
pub(super) fn mount_point(table: &str, kind: &str) -> Option<PathBuf> {
    let found = table.lines().filter_map(fields).find(|found| found[0] == "/" && found[2] == kind);
    found.map(|[_, point, ..]| unescape(point))
}

/// What a line says of a mount: the root, the point, the kind, the file system's options.
#[inline(never)]
fn fields(line: &str) -> Option<[&str; 4]> {
    let (before, after) = line.split_once(" - ")?;
    let (mut fields, mut tail) = (before.split(' ').skip(3), after.split(' '));
    Some([fields.next()?, fields.next()?, tail.next()?, tail.nth(1).unwrap_or("")])
}

fn parse_line(line: &str) -> Option<CgroupMount> {
    let [root, point, kind, options] = fields(line)?;
    let unified = match kind {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    let controllers = if unified { Vec::new() } else { controllers(options) };
    if !unified && controllers.is_empty() {
        return None;
    }
    Some(CgroupMount { point: unescape(point), controllers, unified, whole: root == "/" })
}

fn controllers(options: &str) -> Vec<String> {
    let mut names: Vec<String> = options
        .split(',')
        .filter(|option| !NOT_CONTROLLERS.contains(option) && !option.starts_with("release_agent="))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

/// The table writes space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        match rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if byte.is_ascii() => {
                out.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            _ => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    PathBuf::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_mounts_come_first_and_escapes_are_read() {
        let table = "1 0 0:9 /docker/x /a rw shared:1 master:2 - cgroup none rw,pids\n\
                     2 0 0:9 / /b\\040c rw - cgroup none rw,pids,clone_children\n\
                     3 0 0:8 / /proc rw - proc proc rw\n\
                     broken line\n";
        let mounts = cgroup_mounts(table);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].point, PathBuf::from("/b c"));
        assert_eq!(mounts[0].controllers, ["pids"]);
        assert_eq!(mounts[1].point, PathBuf::from("/a"));
        assert_eq!(mount_point(table, "proc"), Some(PathBuf::from("/proc")));
        assert_eq!(mount_point(table, "cgroup"), Some(PathBuf::from("/b c")), "the first is not whole");
        assert_eq!(mount_point(table, "resctrl"), None);
    }
}
