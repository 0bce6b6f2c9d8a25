//! Who the program runs as, by the rootfs's own /etc/passwd and /etc/group. Both come from an image and are not trusted.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use berth_sys::path::open_in_root;
use rustix::fs::{FileType, OFlags};

use crate::args::{ResolvedUser, UserLookup};
use crate::error::{At, Failure};

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// Larger files are refused.
const MAX_FILE: u64 = 10 << 20;

/// Longer lines are passed over.
const MAX_LINE: u64 = 64 << 10;

/// Ids above this wrap around in programs that keep them in an int.
const MAX_ID: u32 = i32::MAX as u32;

/// One user of /etc/passwd.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
}

/// Resolves what the image or the pod calls the user.
pub(super) fn resolve(root: &OwnedFd, lookup: &UserLookup) -> Result<ResolvedUser, Failure> {
    let (user, group) = match lookup.name.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (lookup.name.as_str(), None),
    };
    for asked in lookup.gid.iter().chain(&lookup.supplemental) {
        bounded(*asked)?;
    }
    let (uid, entry) = find_user(root, user)?;
    let gid = match (lookup.gid, group) {
        (Some(gid), _) => gid,
        (None, Some(group)) if !group.is_empty() => find_group(root, group)?,
        _ => entry.as_ref().map_or(0, |e| e.gid),
    };
    let mut groups: BTreeSet<u32> = lookup.supplemental.iter().copied().collect();
    groups.insert(gid);
    if lookup.merge_image_groups
        && let Some(entry) = &entry
    {
        groups.extend(groups_of(root, &entry.name)?);
    }
    Ok(ResolvedUser { uid, gid, groups: groups.into_iter().collect(), home: entry.map(|e| e.home) })
}

/// The home directory of a user id, if /etc/passwd can be read and knows it.
pub(super) fn home_of(root: &OwnedFd, uid: u32) -> Option<String> {
    find_entry(root, |e| e.uid == uid).ok().flatten().map(|e| e.home)
}

fn find_user(root: &OwnedFd, user: &str) -> Result<(u32, Option<Entry>), Failure> {
    let user = if user.is_empty() { "0" } else { user };
    if user.bytes().all(|b| b.is_ascii_digit()) {
        // A number is an id and nothing else: a passwd that calls somebody "1000" changes nothing.
        let uid = number(user)?;
        let entry = find_entry(root, |e| e.uid == uid)?;
        if let Some(entry) = &entry {
            bounded(entry.gid)?;
        }
        return Ok((uid, entry));
    }
    match find_entry(root, |e| e.name == user)? {
        Some(entry) => {
            bounded(entry.gid)?;
            Ok((bounded(entry.uid)?, Some(entry)))
        }
        None => Err(unknown("user", user, PASSWD)),
    }
}

fn find_group(root: &OwnedFd, group: &str) -> Result<u32, Failure> {
    if group.bytes().all(|b| b.is_ascii_digit()) {
        return number(group);
    }
    let mut found = None;
    each_line(root, GROUP, |fields| {
        if found.is_none() && fields.first() == Some(&group) {
            found = fields.get(2).and_then(|gid| gid.parse().ok());
        }
        found.is_none()
    })?;
    bounded(found.ok_or_else(|| unknown("group", group, GROUP))?)
}

fn groups_of(root: &OwnedFd, name: &str) -> Result<BTreeSet<u32>, Failure> {
    let mut groups = BTreeSet::new();
    each_line(root, GROUP, |fields| {
        let member = fields.get(3).is_some_and(|list| list.split(',').any(|m| m == name));
        if member && let Some(gid) = fields.get(2).and_then(|gid| gid.parse().ok()) {
            groups.insert(gid);
        }
        true
    })?;
    groups.iter().try_for_each(|gid| bounded(*gid).map(drop))?;
    Ok(groups)
}

fn number(text: &str) -> Result<u32, Failure> {
    match text.parse() {
        Ok(id) => bounded(id),
        Err(_) => Err(too_large(text)),
    }
}

/// Refuses what is no id, whoever says it: 4294967295 tells the kernel to leave the id as it is, which is root's.
fn bounded(id: u32) -> Result<u32, Failure> {
    if id <= MAX_ID { Ok(id) } else { Err(too_large(&id.to_string())) }
}

fn too_large(text: &str) -> Failure {
    Failure::refused("look up user", Some(Path::new(text)), format!("ids go up to {MAX_ID}"))
}

fn unknown(what: &str, name: &str, file: &str) -> Failure {
    Failure::refused(
        &format!("look up {what}"),
        Some(Path::new(name)),
        format!("the image's {file} does not know it"),
    )
}

fn find_entry(root: &OwnedFd, matches: impl Fn(&Entry) -> bool) -> Result<Option<Entry>, Failure> {
    let mut found = None;
    each_line(root, PASSWD, |fields| {
        found = entry(fields).filter(|e| matches(e));
        found.is_none()
    })?;
    Ok(found)
}

fn entry(fields: &[&str]) -> Option<Entry> {
    Some(Entry {
        name: (*fields.first()?).to_owned(),
        uid: fields.get(2)?.parse().ok()?,
        gid: fields.get(3)?.parse().ok()?,
        home: fields.get(5).copied().unwrap_or_default().to_owned(),
    })
}

/// Opens a file of the image's that is to be read line by line; none when it is not there.
fn open(root: &OwnedFd, path: &str) -> Result<Option<File>, Failure> {
    // O_NONBLOCK: a pipe in its place must not hold us up before we see what it is.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match open_in_root(root, Path::new(path), flags) {
        Ok(fd) => fd,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error).at("open", path),
    };
    let stat = rustix::fs::fstat(&file).at("look at", path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Failure::refused("read", Some(Path::new(path)), "it is not a regular file"));
    }
    if stat.st_size as u64 > MAX_FILE {
        return Err(Failure::refused(
            "read",
            Some(Path::new(path)),
            format!("it is larger than {MAX_FILE} bytes"),
        ));
    }
    Ok(Some(File::from(file)))
}

/// Calls `visit` with the colon-separated fields of every line until it says false. A missing file has no lines.
fn each_line(root: &OwnedFd, path: &str, mut visit: impl FnMut(&[&str]) -> bool) -> Result<(), Failure> {
    let Some(file) = open(root, path)? else { return Ok(()) };
    let mut reader = BufReader::new(file.take(MAX_FILE));
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).at("read", path)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == MAX_LINE {
            reader.skip_until(b'\n').at("read", path)?;
            continue;
        }
        let Ok(text) = std::str::from_utf8(&line) else { continue };
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = text.split(':').collect();
        if !visit(&fields) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    struct Tree(PathBuf, OwnedFd);

    impl Tree {
        fn new(name: &str, passwd: &str, group: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("berth-user-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(dir.join("etc")).expect("mkdir");
            std::fs::write(dir.join("etc/passwd"), passwd).expect("passwd");
            std::fs::write(dir.join("etc/group"), group).expect("group");
            let fd = rustix::fs::open(&dir, OFlags::PATH, rustix::fs::Mode::empty()).expect("open");
            Self(dir, fd)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn named(name: &str) -> UserLookup {
        UserLookup { name: name.to_owned(), ..UserLookup::default() }
    }

    const PASSWD_TEXT: &str =
        "root:x:0:0:root:/root:/bin/sh\nwww:x:33:34:w:/var/www:/bin/no\n1000:x:0:0::/:\n";
    const GROUP_TEXT: &str = "root:x:0:\nstaff:x:50:www\nweb:x:34:\nextra:x:60:a,www,b\n";

    #[test]
    fn names_and_numbers() {
        let t = Tree::new("names", PASSWD_TEXT, GROUP_TEXT);
        let of = |name: &str| resolve(&t.1, &named(name)).map(|u| (u.uid, u.gid));
        assert_eq!(of(""), Ok((0, 0)));
        assert_eq!(of("www"), Ok((33, 34)));
        assert_eq!(of("33"), Ok((33, 34)));
        assert_eq!(of("www:staff"), Ok((33, 50)));
        assert_eq!(of("33:10"), Ok((33, 10)));
        assert_eq!(of(":10"), Ok((0, 10)));
        // A number is never a name.
        assert_eq!(of("1000"), Ok((1000, 0)));
    }

    #[test]
    fn odd_ids_are_refused() {
        let t = Tree::new("odd", PASSWD_TEXT, GROUP_TEXT);
        for name in
            ["4294967296", "2147483648", "-1", "0x0", "99999999999999999999", "nobody-here", "www:nogroup"]
        {
            assert!(resolve(&t.1, &named(name)).is_err(), "{name}");
        }
        assert!(resolve(&t.1, &named("2147483647")).is_ok());
    }

    #[test]
    fn ids_of_the_image_have_the_same_bound() {
        let passwd = "app:x:4294967295:4294967295::/:/bin/sh\nbig:x:7:4294967295::/:/bin/sh\nok:x:8:8::/:\n";
        let t = Tree::new("bound", passwd, "wide:x:4294967295:\nextra:x:2147483648:ok\n");
        for name in ["app", "big", "7", "ok:wide"] {
            assert!(resolve(&t.1, &named(name)).is_err(), "{name}");
        }
        let merged = UserLookup { merge_image_groups: true, ..named("ok") };
        assert!(resolve(&t.1, &merged).is_err());
        for lookup in [
            UserLookup { gid: Some(u32::MAX), ..named("ok") },
            UserLookup { supplemental: vec![u32::MAX], ..named("ok") },
        ] {
            assert!(resolve(&t.1, &lookup).is_err());
        }
        assert!(resolve(&t.1, &named("ok")).is_ok());
    }

    #[test]
    fn groups_strict_and_merged() {
        let t = Tree::new("groups", PASSWD_TEXT, GROUP_TEXT);
        let mut lookup =
            UserLookup { name: "www".into(), supplemental: vec![7, 7, 5], ..UserLookup::default() };
        assert_eq!(resolve(&t.1, &lookup).expect("strict").groups, [5, 7, 34]);
        lookup.merge_image_groups = true;
        assert_eq!(resolve(&t.1, &lookup).expect("merge").groups, [5, 7, 34, 50, 60]);
    }

    #[test]
    fn hostile_files_are_refused_or_passed_over() {
        let t = Tree::new("hostile", PASSWD_TEXT, GROUP_TEXT);
        let passwd = t.0.join("etc/passwd");
        std::fs::remove_file(&passwd).expect("remove");
        rustix::fs::mknodat(rustix::fs::CWD, &passwd, FileType::Fifo, 0o644.into(), 0).expect("fifo");
        assert!(resolve(&t.1, &named("www")).is_err());
        std::fs::remove_file(&passwd).expect("remove");
        File::create(&passwd).and_then(|f| f.set_len(1 << 30)).expect("huge");
        assert!(resolve(&t.1, &named("www")).is_err());
        std::fs::write(&passwd, format!("{}\n{PASSWD_TEXT}", "x".repeat(100_000))).expect("long line");
        assert_eq!(resolve(&t.1, &named("www")).map(|u| u.uid), Ok(33));
        std::fs::remove_file(&passwd).expect("remove");
        symlink("/data/passwd", &passwd).expect("link");
        std::fs::create_dir(t.0.join("data")).expect("mkdir");
        std::fs::write(t.0.join("data/passwd"), "in:x:5:5::/home/in:\n").expect("write");
        let user = resolve(&t.1, &named("in")).expect("through a link inside the root");
        assert_eq!((user.uid, user.home.as_deref()), (5, Some("/home/in")));
    }
}
