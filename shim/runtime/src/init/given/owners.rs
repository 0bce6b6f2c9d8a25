//! `uidmap=` and `gidmap=` of a mount: the user namespace through which the owners in it are seen.

use std::os::fd::{BorrowedFd, OwnedFd};

use berth_core::oci::LinuxIdMapping;

use crate::error::Failure;
use crate::launch;
use crate::options::Options;

/// The words in front of the mappings of users and of groups.
const KEYS: [&str; 2] = ["uidmap=", "gidmap="];

/// The kernel takes so many ranges.
const RANGES_MAX: usize = 340;

/// Takes the mappings out of the options and gives a user namespace that has them; none where there are none.
pub(super) fn take(options: &mut Options, exe: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Failure> {
    match mappings(options)? {
        Some([users, groups]) => launch::user_namespace(exe, &users, &groups).map(Some),
        None => Ok(None),
    }
}

fn mappings(options: &mut Options) -> Result<Option<[Vec<LinuxIdMapping>; 2]>, Failure> {
    let mut found = [Vec::new(), Vec::new()];
    for (key, ranges) in KEYS.iter().zip(&mut found) {
        for text in options.data.iter().filter_map(|option| option.strip_prefix(key)) {
            if !ranges.is_empty() {
                return Err(refused(key, text, "is given twice"));
            }
            *ranges = read(text).map_err(|why| refused(key, text, why))?;
        }
    }
    options.data.retain(|option| !KEYS.iter().any(|key| option.starts_with(key)));
    match (found[0].is_empty(), found[1].is_empty()) {
        (true, true) => Ok(None),
        (false, false) => Ok(Some(found)),
        _ => Err(Failure::refused(
            "map owners",
            None,
            "uidmap= and gidmap= go together, one of them is missing",
        )),
    }
}

fn refused(key: &str, text: &str, why: &str) -> Failure {
    let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    Failure::refused("map owners", None, format!("{key}{shown} {why}"))
}

/// `container:host:size`, several of them with commas between.
fn read(text: &str) -> Result<Vec<LinuxIdMapping>, &'static str> {
    let mut ranges: Vec<[u32; 3]> = Vec::new();
    for part in text.split(',') {
        let range = range(part)?;
        if ranges.len() == RANGES_MAX {
            return Err("has more than 340 ranges");
        }
        if ranges.iter().any(|other| overlap(other, &range)) {
            return Err("maps an id twice");
        }
        ranges.push(range);
    }
    let mapping = |[container_id, host_id, size]: [u32; 3]| LinuxIdMapping { container_id, host_id, size };
    Ok(ranges.into_iter().map(mapping).collect())
}

fn range(part: &str) -> Result<[u32; 3], &'static str> {
    const FORM: &str = "is not container:host:size in decimal numbers";
    let number = |word: &str| {
        let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        word.parse().ok().filter(|_| plain).ok_or(FORM)
    };
    let words: Vec<&str> = part.split(':').collect();
    let [container, host, size] = words.as_slice() else { return Err(FORM) };
    let [container, host, size] = [number(container)?, number(host)?, number(size)?];
    // The last number is the kernel's word for "no id".
    let fits = |first: u32| first.checked_add(size).is_some();
    match size > 0 && fits(container) && fits(host) {
        true => Ok([container, host, size]),
        false => Err("has a range that is empty or ends beyond the last id"),
    }
}

/// Whether two ranges have an id in common, inside or outside.
fn overlap(a: &[u32; 3], b: &[u32; 3]) -> bool {
    [0, 1].iter().any(|side| a[*side] < b[*side] + b[2] && b[*side] < a[*side] + a[2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    fn of(words: &[&str]) -> Result<Option<[Vec<LinuxIdMapping>; 2]>, String> {
        let mut options = parse(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        let found = mappings(&mut options).map_err(|f| f.to_string())?;
        let left = options.data.iter().any(|option| KEYS.iter().any(|key| option.starts_with(key)));
        assert!(!left, "{:?}", options.data);
        Ok(found)
    }

    #[test]
    fn mappings_leave_the_options() {
        assert_eq!(of(&["index=off", "lowerdir=/uidmap=0:0:1"]), Ok(None));
        let [users, groups] =
            of(&["uidmap=0:1000:10,10:70000:5", "gidmap=0:7:1", "index=off"]).unwrap().unwrap();
        let plain = |m: &LinuxIdMapping| (m.container_id(), m.host_id(), m.size());
        assert_eq!(users.iter().map(plain).collect::<Vec<_>>(), [(0, 1000, 10), (10, 70000, 5)]);
        assert_eq!(groups.iter().map(plain).collect::<Vec<_>>(), [(0, 7, 1)]);
    }

    #[test]
    fn what_is_no_mapping_is_refused_by_name() {
        let many = (0..341).map(|n| format!("{n}:{n}:1")).collect::<Vec<_>>().join(",");
        for (text, why) in [
            ("", "container:host:size"),
            ("0:0", "container:host:size"),
            ("0:0:1:1", "container:host:size"),
            ("0:0:1,", "container:host:size"),
            ("+0:0:1", "container:host:size"),
            ("0:-1:1", "container:host:size"),
            ("0:0:4294967296", "container:host:size"),
            ("0:0:1\n0 0 2", "container:host:size"),
            ("0:0:0", "empty or ends beyond"),
            ("0:1:4294967295", "empty or ends beyond"),
            ("0:0:10,9:100:1", "twice"),
            ("0:0:10,20:9:1", "twice"),
            (many.as_str(), "340"),
        ] {
            let option = format!("uidmap={text}");
            let error = of(&[&option, "gidmap=0:0:1"]).unwrap_err();
            assert!(error.starts_with("map owners: uidmap=") && error.contains(why), "{error}");
            assert!(!error.contains('\n') && error.len() < 250, "{error}");
        }
        assert!(of(&["uidmap=0:0:1"]).unwrap_err().contains("one of them is missing"));
        assert!(of(&["uidmap=0:0:1", "uidmap=0:0:1", "gidmap=0:0:1"]).unwrap_err().contains("given twice"));
    }
}
