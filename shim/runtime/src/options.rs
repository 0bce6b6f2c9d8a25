//! The options of a mount in config.json, sorted into what the kernel wants where.

use berth_sys::mount::{Propagation, attr};

/// How the owners of a mount are mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdMap {
    /// This mount only.
    Single,
    /// And everything mounted below.
    Recursive,
}

/// Parsed options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// `bind` (false) or `rbind` (true).
    pub(crate) bind: Option<bool>,
    /// Attributes of the mount itself.
    pub(crate) set: u64,
    pub(crate) clear: u64,
    /// Attributes of everything below too.
    pub(crate) recursive_set: u64,
    pub(crate) recursive_clear: u64,
    /// Propagation in the order given; true for recursive.
    pub(crate) propagation: Vec<(Propagation, bool)>,
    /// Flags of the file system itself, by their fsconfig names.
    pub(crate) flags: Vec<&'static str>,
    /// What the file system's own parser gets.
    pub(crate) data: Vec<String>,
    pub(crate) copy_up: bool,
    pub(crate) idmap: Option<IdMap>,
}

impl Options {
    /// Whether a propagation type asks for events to travel to the host.
    pub(crate) fn shares(&self) -> bool {
        self.propagation.iter().any(|(kind, _)| *kind == Propagation::Shared)
    }

    /// The value of `key=` in the file system's own options.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.data.iter().rev().find_map(|d| d.strip_prefix(key)?.strip_prefix('='))
    }

    fn change(&mut self, recursive: bool, set: u64, clear: u64) {
        let (s, c) = if recursive {
            (&mut self.recursive_set, &mut self.recursive_clear)
        } else {
            (&mut self.set, &mut self.clear)
        };
        *s = (*s & !clear) | set;
        *c = (*c | clear) & !(set & !attr::ATIME);
    }
}

/// Sorts the options of one mount.
pub(crate) fn parse(options: &[String]) -> Options {
    let mut out = Options::default();
    for option in options {
        if simple(&mut out, option) {
            continue;
        }
        if let Some((kind, recursive)) = propagation(option) {
            out.propagation.push((kind, recursive));
        } else if let Some((set, clear)) = attribute(option) {
            out.change(false, set, clear);
        } else if let Some((set, clear)) = option.strip_prefix('r').and_then(attribute) {
            out.change(true, set, clear);
        } else {
            out.data.push(option.clone());
        }
    }
    out
}

/// Options that are neither attributes nor propagation.
fn simple(out: &mut Options, option: &str) -> bool {
    match option {
        "bind" => out.bind = Some(out.bind == Some(true)),
        "rbind" => out.bind = Some(true),
        "tmpcopyup" => out.copy_up = true,
        "idmap" => out.idmap = Some(IdMap::Single),
        "ridmap" => out.idmap = Some(IdMap::Recursive),
        "sync" => out.flags.push("sync"),
        "dirsync" => out.flags.push("dirsync"),
        "lazytime" => out.flags.push("lazytime"),
        "mand" => out.flags.push("mand"),
        // Defaults, and what has no meaning on Linux or for a new mount.
        "defaults" | "async" | "loud" | "silent" | "nolazytime" | "nomand" | "iversion" | "noiversion"
        | "acl" | "noacl" | "remount" | "nofail" | "auto" | "noauto" | "user" | "nouser" => {}
        _ => return false,
    }
    true
}

/// The bits that an attribute option sets and clears. Any access time policy clears the whole mask, or the kernel refuses.
fn attribute(option: &str) -> Option<(u64, u64)> {
    Some(match option {
        "ro" => (attr::RDONLY, 0),
        "rw" => (0, attr::RDONLY),
        "nosuid" => (attr::NOSUID, 0),
        "suid" => (0, attr::NOSUID),
        "nodev" => (attr::NODEV, 0),
        "dev" => (0, attr::NODEV),
        "noexec" => (attr::NOEXEC, 0),
        "exec" => (0, attr::NOEXEC),
        "nodiratime" => (attr::NODIRATIME, 0),
        "diratime" => (0, attr::NODIRATIME),
        "nosymfollow" => (attr::NOSYMFOLLOW, 0),
        "symfollow" => (0, attr::NOSYMFOLLOW),
        "noatime" => (attr::NOATIME, attr::ATIME),
        "strictatime" => (attr::STRICTATIME, attr::ATIME),
        "relatime" | "atime" | "nostrictatime" | "norelatime" => (attr::RELATIME, attr::ATIME),
        _ => return None,
    })
}

/// `shared`, `rslave` and so on.
pub(crate) fn propagation(option: &str) -> Option<(Propagation, bool)> {
    Some(match option {
        "private" => (Propagation::Private, false),
        "rprivate" => (Propagation::Private, true),
        "shared" => (Propagation::Shared, false),
        "rshared" => (Propagation::Shared, true),
        "slave" => (Propagation::Slave, false),
        "rslave" => (Propagation::Slave, true),
        "unbindable" => (Propagation::Unbindable, false),
        "runbindable" => (Propagation::Unbindable, true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &[&str]) -> Options {
        parse(&options.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn ro_is_the_top_and_rro_everything() {
        let o = of(&["rbind", "ro"]);
        assert_eq!((o.bind, o.set, o.recursive_set), (Some(true), attr::RDONLY, 0));
        let o = of(&["rbind", "rro"]);
        assert_eq!((o.set, o.recursive_set), (0, attr::RDONLY));
    }

    #[test]
    fn the_last_word_wins() {
        let o = of(&["ro", "rw"]);
        assert_eq!((o.set, o.clear), (0, attr::RDONLY));
        let o = of(&["rw", "ro"]);
        assert_eq!((o.set, o.clear), (attr::RDONLY, 0));
    }

    #[test]
    fn access_times_clear_the_whole_mask() {
        let o = of(&["bind", "rnoatime"]);
        assert_eq!((o.recursive_set, o.recursive_clear), (attr::NOATIME, attr::ATIME));
        let o = of(&["bind", "rstrictatime"]);
        assert_eq!((o.recursive_set, o.recursive_clear), (attr::STRICTATIME, attr::ATIME));
        let o = of(&["relatime"]);
        assert_eq!((o.set, o.clear), (0, attr::ATIME));
    }

    #[test]
    fn unknown_words_go_to_the_file_system() {
        let o = of(&["size=64k", "mode=0700", "nosuid"]);
        assert_eq!(o.data, ["size=64k", "mode=0700"]);
        assert_eq!(o.value("mode"), Some("0700"));
        assert_eq!(o.value("size"), Some("64k"));
        assert_eq!(o.value("mod"), None);
    }

    #[test]
    fn propagation_keeps_its_order() {
        let o = of(&["rprivate", "rshared"]);
        assert_eq!(o.propagation, [(Propagation::Private, true), (Propagation::Shared, true)]);
        assert!(o.shares());
    }
}
