//! The runtime's options, as containerd hands them over: those of runc, or those for runtimes it does not know.

use berth_cgroup::Driver;
use berth_proto::containerd::{Any, RuncOptions, RuntimeOptions};
use prost::Message;

use super::stdio::Owner;
use crate::error::CallError;

const RUNC: &str = "containerd.runc.v1.Options";
const GENERIC: &str = "runtimeoptions.v1.Options";

/// What of them means something here. A binary's name, a state directory and checkpoints are runc's own affairs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The driver, where the options say one.
    driver: Option<Driver>,
    pub(super) no_pivot: bool,
    pub(super) no_new_keyring: bool,
    /// Who owns the pipes that a process gets for its streams; root where nothing is said.
    pub(super) io_owner: Owner,
    /// A group for the shim itself.
    pub(super) shim_cgroup: Option<String>,
}

impl Options {
    /// Reads them; none and unknown ones are the defaults.
    pub(super) fn read(any: Option<&Any>) -> Result<Options, CallError> {
        let undecodable = |error: prost::DecodeError| CallError::request("options", error.to_string());
        match any {
            Some(any) if any.is(RUNC) => {
                let runc = RuncOptions::decode(&*any.value).map_err(undecodable)?;
                Ok(Options {
                    // False is also what is sent when nothing was said.
                    driver: runc.systemd_cgroup.then_some(Driver::Systemd),
                    no_pivot: runc.no_pivot_root,
                    no_new_keyring: runc.no_new_keyring,
                    io_owner: Owner { uid: runc.io_uid, gid: runc.io_gid },
                    shim_cgroup: Some(runc.shim_cgroup).filter(|path| !path.is_empty()),
                })
            }
            Some(any) if any.is(GENERIC) => {
                let generic = RuntimeOptions::decode(&*any.value).map_err(undecodable)?;
                Ok(Options { driver: driver(&generic.config_body), ..Options::default() })
            }
            _ => Ok(Options::default()),
        }
    }

    /// The driver of a container's group. Where the options do not say it the path's own form does.
    pub(super) fn driver(&self, path: Option<&str>) -> Driver {
        let of_form = || match path.map(|path| path.split(':').count()) {
            Some(3) => Driver::Systemd,
            _ => Driver::Cgroupfs,
        };
        self.driver.unwrap_or_else(of_form)
    }
}

/// The line `SystemdCgroup = true` (or false) of a configuration in TOML.
fn driver(body: &[u8]) -> Option<Driver> {
    let text = std::str::from_utf8(body).ok()?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("SystemdCgroup"))?;
    match line.trim().strip_prefix('=')?.trim() {
        "true" => Some(Driver::Systemd),
        "false" => Some(Driver::Cgroupfs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_decide_the_driver_and_the_form_where_they_are_silent() {
        let silent = Options::read(None).unwrap();
        assert_eq!(silent.driver(Some("a.slice:cri:id")), Driver::Systemd);
        assert_eq!(silent.driver(Some("/a/b")), Driver::Cgroupfs);
        assert_eq!(silent.driver(None), Driver::Cgroupfs);
        let said = Any::of(
            RUNC,
            &RuncOptions {
                systemd_cgroup: true,
                no_pivot_root: true,
                io_uid: 5,
                io_gid: 6,
                ..RuncOptions::default()
            },
        );
        let said = Options::read(Some(&said)).unwrap();
        assert_eq!((said.driver(Some("/a/b")), said.no_pivot), (Driver::Systemd, true));
        assert_eq!(said.io_owner, Owner { uid: 5, gid: 6 });
        let unsaid = Options::read(Some(&Any::of(RUNC, &RuncOptions::default()))).unwrap();
        assert_eq!(unsaid.driver(Some("a.slice:cri:id")), Driver::Systemd);
        let body = b"[x]\n SystemdCgroup = true\n".to_vec();
        let generic = Any::of(GENERIC, &RuntimeOptions { config_body: body, ..RuntimeOptions::default() });
        assert_eq!(Options::read(Some(&generic)).unwrap().driver(Some("/a")), Driver::Systemd);
        let broken = Any { type_url: RUNC.to_owned(), value: vec![0xff] };
        assert!(Options::read(Some(&broken)).is_err());
    }
}
