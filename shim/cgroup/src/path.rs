//! Where a group lies: the two forms of `cgroupsPath`, and the refusal of the wrong one.
//!
//! The kubelet and the runtime must use the same driver. When they do not, one form reaches the other's code, and
//! taking it literally makes a directory named `slice:prefix:name` that no one will ever clean up, or a container
//! outside its pod. So parsing asks for the driver and refuses the other form.

use std::fmt;

/// Longest path taken; the kernel's own limit is PATH_MAX.
const LONGEST: usize = 4000;

/// Who makes the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Driver {
    /// This process, in the cgroup file systems.
    Cgroupfs,
    /// systemd, as transient scopes.
    Systemd,
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        })
    }
}

/// A group's path, in the form of its driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CgroupPath {
    /// Below every hierarchy's mount point, without a leading slash.
    Fs(String),
    /// A scope of systemd.
    Systemd {
        /// The slice, `*.slice`.
        slice: String,
        /// The scope's first part; may be empty.
        prefix: String,
        /// The scope's second part.
        name: String,
    },
}

/// Why a path was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// systemd's form under the cgroupfs driver.
    #[error(
        "cgroup path {path:?} has systemd's form, but the runtime's cgroup driver is cgroupfs: set the runtime's driver \
         to systemd, or cgroupDriver of the kubelet to cgroupfs"
    )]
    SystemdForm {
        /// The path.
        path: String,
    },
    /// A plain path under the systemd driver.
    #[error(
        "cgroup path {path:?} is a plain path, but the runtime's cgroup driver is systemd and wants \
         slice:prefix:name below a *.slice: set the runtime's driver to cgroupfs, or cgroupDriver of the kubelet to systemd"
    )]
    FsForm {
        /// The path.
        path: String,
    },
    /// Not a path that may be used.
    #[error("cgroup path {path:?}: {reason}")]
    Invalid {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl CgroupPath {
    /// Reads `cgroupsPath` of a bundle. Under cgroupfs a relative path counts from the mount points, as an absolute
    /// one does.
    pub fn parse(driver: Driver, path: &str) -> Result<Self, PathError> {
        check_text(path)?;
        match driver {
            Driver::Cgroupfs => parse_fs(path),
            Driver::Systemd => parse_systemd(path),
        }
    }

    /// Reads a path that was recorded as this type prints it, whichever driver made it: what was made under the other
    /// driver still has to be found and removed.
    pub fn recorded(text: &str) -> Result<Self, PathError> {
        let driver = if text.starts_with('/') { Driver::Cgroupfs } else { Driver::Systemd };
        Self::parse(driver, text)
    }

    /// The group of a whole pod, as the kubelet names it (`cgroup_parent`): a plain path, or the path of a slice, or
    /// its bare name.
    pub fn of_parent(parent: &str) -> Result<Self, PathError> {
        let slice = parent.trim_end_matches('/').rsplit('/').next().unwrap_or("");
        let Some(stem) = slice.strip_suffix(".slice") else {
            check_text(parent)?;
            return parse_fs(parent);
        };
        if stem.split('-').any(str::is_empty) {
            return Err(PathError::Invalid {
                path: parent.to_owned(),
                reason: "the slice has an empty part",
            });
        }
        // A slice lies in the slice that its name without the last part says, as a scope does in its slice.
        match stem.rsplit_once('-') {
            Some((above, _)) => Self::parse(Driver::Systemd, &format!("{above}.slice::{slice}")),
            None => Self::parse(Driver::Systemd, &format!("-.slice::{slice}")),
        }
    }

    /// The path of a container or sandbox below the parent that the kubelet names (`cgroup_parent`): a leaf `id`, or
    /// the scope `berth-<id>.scope`. Refuses a parent of the other driver's form. An empty parent is `/berth`, or
    /// `system.slice`.
    pub fn under_parent(driver: Driver, parent: &str, id: &str) -> Result<Self, PathError> {
        let refused = |reason| PathError::Invalid { path: format!("{parent}/{id}"), reason };
        if id.is_empty() || id.contains(['/', ':']) {
            return Err(refused("the id must be a plain name"));
        }
        let last = parent.trim_end_matches('/').rsplit('/').next().unwrap_or("");
        match driver {
            Driver::Cgroupfs if last.ends_with(".slice") => {
                Err(PathError::SystemdForm { path: parent.to_owned() })
            }
            Driver::Cgroupfs if parent.is_empty() => Self::parse(driver, &format!("/berth/{id}")),
            Driver::Cgroupfs => Self::parse(driver, &format!("{parent}/{id}")),
            Driver::Systemd if parent.is_empty() => Self::parse(driver, &format!(":berth:{id}")),
            Driver::Systemd if !last.ends_with(".slice") => {
                Err(PathError::FsForm { path: parent.to_owned() })
            }
            Driver::Systemd => Self::parse(driver, &format!("{last}:berth:{id}")),
        }
    }

    /// The driver whose form this is.
    pub fn driver(&self) -> Driver {
        match self {
            Self::Fs(_) => Driver::Cgroupfs,
            Self::Systemd { .. } => Driver::Systemd,
        }
    }

    /// The directory below each mount point, without a leading slash.
    pub fn relative(&self) -> String {
        match self {
            Self::Fs(path) => path.clone(),
            Self::Systemd { slice, .. } => match slice_dir(slice) {
                dir if dir.is_empty() => self.unit(),
                dir => format!("{dir}/{}", self.unit()),
            },
        }
    }

    /// The name of the systemd unit; empty under cgroupfs.
    pub fn unit(&self) -> String {
        match self {
            Self::Fs(_) => String::new(),
            Self::Systemd { name, .. } if name.ends_with(".slice") || name.ends_with(".scope") => {
                name.clone()
            }
            Self::Systemd { prefix, name, .. } if prefix.is_empty() => format!("{name}.scope"),
            Self::Systemd { prefix, name, .. } => format!("{prefix}-{name}.scope"),
        }
    }
}

/// The form of `cgroupsPath`.
impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fs(path) => write!(f, "/{path}"),
            Self::Systemd { slice, prefix, name } => write!(f, "{slice}:{prefix}:{name}"),
        }
    }
}

fn check_text(path: &str) -> Result<(), PathError> {
    let refused = |reason| Err(PathError::Invalid { path: path.chars().take(200).collect(), reason });
    match path {
        "" => refused("it is empty"),
        long if long.len() > LONGEST => refused("it is too long"),
        text if text.chars().any(char::is_control) => refused("it holds a control character"),
        _ => Ok(()),
    }
}

fn parse_fs(path: &str) -> Result<CgroupPath, PathError> {
    if path.split('/').any(|part| part.matches(':').count() == 2) {
        return Err(PathError::SystemdForm { path: path.to_owned() });
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let refused = |reason| Err(PathError::Invalid { path: path.to_owned(), reason });
    match parts.as_slice() {
        [] => refused("it names the root group, which no container may own"),
        parts if parts.contains(&"..") => refused("it holds \"..\""),
        parts if parts.iter().any(|part| part.len() > 255) => {
            refused("a part of it is longer than 255 bytes")
        }
        parts => Ok(CgroupPath::Fs(parts.join("/"))),
    }
}

fn parse_systemd(path: &str) -> Result<CgroupPath, PathError> {
    let parts: Vec<&str> = path.split(':').collect();
    let [slice, prefix, name] = parts.as_slice() else {
        return Err(PathError::FsForm { path: path.to_owned() });
    };
    let refused = |reason| Err(PathError::Invalid { path: path.to_owned(), reason });
    if path.contains('/') {
        return refused("a unit name holds no slash");
    }
    let slice = if slice.is_empty() { "system.slice" } else { slice };
    let Some(stem) = slice.strip_suffix(".slice") else {
        return refused("its first part must be a *.slice");
    };
    if stem != "-" && stem.split('-').any(str::is_empty) {
        return refused("the slice has an empty part");
    }
    if name.is_empty() {
        return refused("its last part, the name, is empty");
    }
    let found = CgroupPath::Systemd {
        slice: slice.to_owned(),
        prefix: (*prefix).to_owned(),
        name: (*name).to_owned(),
    };
    // What is printed has to be read again, also with the slice that an empty one stands for.
    let longest = path.len().max(found.to_string().len()).max(found.unit().len());
    if longest > 255 || !path.bytes().all(|b| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b)) {
        return refused("unit names are at most 255 letters, digits and any of :-_.\\@");
    }
    Ok(found)
}

/// `a-b.slice` lies in `a.slice/a-b.slice`; `-.slice` is the root.
fn slice_dir(slice: &str) -> String {
    let stem = slice.strip_suffix(".slice").unwrap_or(slice);
    if stem == "-" {
        return String::new();
    }
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    let parents: Vec<String> = ends.map(|end| format!("{}.slice", &stem[..end])).collect();
    parents.join("/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_driver_refuses_the_other_form_and_says_which_side_to_change() {
        for wrong in ["kubepods.slice:berth:abc", "/a/kubepods.slice:cri-containerd:abc", "::x", "a:b:c/d"] {
            let error = CgroupPath::parse(Driver::Cgroupfs, wrong).unwrap_err();
            assert!(matches!(error, PathError::SystemdForm { .. }), "{wrong}");
            assert!(error.to_string().contains("kubelet to cgroupfs"));
        }
        for wrong in ["/kubepods/burstable/pod1/abc", "abc", "a:b", "a:b:c:d"] {
            let error = CgroupPath::parse(Driver::Systemd, wrong).unwrap_err();
            assert!(matches!(error, PathError::FsForm { .. }), "{wrong}");
            assert!(error.to_string().contains("kubelet to systemd"));
        }
    }

    #[test]
    fn parents_of_the_other_form_are_refused() {
        let slice = "/kubepods.slice/kubepods-pod1.slice";
        assert!(matches!(
            CgroupPath::under_parent(Driver::Cgroupfs, slice, "x"),
            Err(PathError::SystemdForm { .. })
        ));
        assert!(matches!(
            CgroupPath::under_parent(Driver::Systemd, "/kubepods/pod1", "x"),
            Err(PathError::FsForm { .. })
        ));
        let fs = CgroupPath::under_parent(Driver::Cgroupfs, "/kubepods/pod1/", "x").unwrap();
        assert_eq!(fs.to_string(), "/kubepods/pod1/x");
        let scope = CgroupPath::under_parent(Driver::Systemd, slice, "x").unwrap();
        assert_eq!(scope.to_string(), "kubepods-pod1.slice:berth:x");
        assert_eq!(scope.relative(), "kubepods.slice/kubepods-pod1.slice/berth-x.scope");
        assert!(CgroupPath::under_parent(Driver::Cgroupfs, "/p", "../x").is_err());
    }

    #[test]
    fn a_pods_own_group_is_found_in_both_forms() {
        let relative = |parent: &str| CgroupPath::of_parent(parent).map(|path| path.relative());
        let deep = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice";
        assert_eq!(relative("kubepods-burstable-pod1_2.slice").unwrap(), deep);
        assert_eq!(relative(&format!("/{deep}/")).unwrap(), deep);
        assert_eq!(relative("kubepods.slice").unwrap(), "kubepods.slice");
        assert_eq!(relative("/kubepods/burstable/pod1-2").unwrap(), "kubepods/burstable/pod1-2");
        for bad in ["", "/", "/a/../b", "-.slice", ".slice", "a--b.slice"] {
            assert!(relative(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_was_recorded_is_read_under_either_driver() {
        for (driver, parent) in
            [(Driver::Cgroupfs, "/p"), (Driver::Systemd, "a-b.slice"), (Driver::Cgroupfs, "")]
        {
            let path = CgroupPath::under_parent(driver, parent, "x").unwrap();
            assert_eq!(CgroupPath::recorded(&path.to_string()).unwrap(), path);
        }
        assert!(CgroupPath::recorded("").is_err());
    }

    #[test]
    fn hostile_paths_are_refused() {
        for bad in ["", "/", "//./", "/a/../b", "/a\nb", "/a\0b"] {
            assert!(
                matches!(CgroupPath::parse(Driver::Cgroupfs, bad), Err(PathError::Invalid { .. })),
                "{bad:?}"
            );
        }
        // 250 bytes as they stand, too many once they are a unit's name in system.slice.
        let long = format!("::{}", "x".repeat(248));
        for bad in ["x.slice:p:", "x:p:n", "a--b.slice:p:n", "x.slice:p:n/../m", "x.slice:p:n o", &long] {
            assert!(
                matches!(CgroupPath::parse(Driver::Systemd, bad), Err(PathError::Invalid { .. })),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn units_and_directories() {
        let parse = |text| CgroupPath::parse(Driver::Systemd, text).unwrap();
        assert_eq!(parse(":berth:c1").relative(), "system.slice/berth-c1.scope");
        assert_eq!(parse("-.slice:berth:c1").relative(), "berth-c1.scope");
        assert_eq!(parse("a-b-c.slice::d").relative(), "a.slice/a-b.slice/a-b-c.slice/d.scope");
        assert_eq!(parse("a.slice:x:y.scope").unit(), "y.scope");
    }

    proptest! {
        #[test]
        fn what_is_parsed_stays_below_the_root_and_prints_back(text in "[a-z:./-]{1,40}") {
            for driver in [Driver::Cgroupfs, Driver::Systemd] {
                if let Ok(path) = CgroupPath::parse(driver, &text) {
                    let relative = path.relative();
                    prop_assert!(!relative.starts_with('/') && !relative.is_empty());
                    prop_assert!(relative.split('/').all(|part| !part.is_empty() && part != ".."));
                    prop_assert_eq!(CgroupPath::parse(driver, &path.to_string()), Ok(path));
                }
            }
        }
    }
}
