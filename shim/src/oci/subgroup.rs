//! `exec --cgroup [controller[,controller]:]path`: a group below the container's own, for all hierarchies or for some.

use std::path::{Component, Path, PathBuf};

use berth_cgroup::{Cgroup, Hierarchies};
use berth_runtime::ExecPlaces;

use super::OciError;
use super::flags::Parsed;

/// Where the process goes, if a flag says so.
pub(crate) fn places(flags: &Parsed, cgroup: &Cgroup) -> Result<Option<ExecPlaces>, OciError> {
    let asked = flags.values("cgroup");
    if asked.is_empty() {
        return Ok(None);
    }
    let mounts = Hierarchies::discover()?.v1_mounts();
    let mut v1 = cgroup.v1_dirs();
    let mut unified = cgroup.unified_path();
    for text in &asked {
        let (controllers, below) = match text.split_once(':') {
            Some((list, path)) => (Some(list.split(',').collect::<Vec<_>>()), path),
            None => (None, text.as_str()),
        };
        let below = inside(text, below)?;
        let Some(controllers) = controllers else {
            v1 = cgroup.v1_dirs().iter().map(|dir| dir.join(&below)).collect();
            unified = cgroup.unified_path().map(|dir| dir.join(&below));
            continue;
        };
        for controller in controllers {
            let mount = mounts.iter().find(|(_, list)| list.iter().any(|name| name == controller));
            let unknown = || {
                OciError::Usage(format!("--cgroup {text:?}: no hierarchy has the controller {controller:?}"))
            };
            let (mount, _) = mount.ok_or_else(unknown)?;
            for (place, own) in v1.iter_mut().zip(cgroup.v1_dirs()).filter(|(_, own)| own.starts_with(mount))
            {
                *place = own.join(&below);
            }
        }
    }
    there(v1.iter().chain(&unified))?;
    Ok(Some(ExecPlaces { v1, unified }))
}

/// The path, which must not leave the container's own group.
fn inside(text: &str, below: &str) -> Result<PathBuf, OciError> {
    let below = Path::new(below.trim_start_matches('/'));
    match below.components().all(|part| matches!(part, Component::Normal(_))) {
        true => Ok(below.to_owned()),
        false => Err(OciError::Usage(format!("--cgroup {text:?} leads out of the container's own"))),
    }
}

fn there<'a>(mut dirs: impl Iterator<Item = &'a PathBuf>) -> Result<(), OciError> {
    match dirs.find(|dir| !dir.is_dir()) {
        Some(dir) => Err(OciError::Usage(format!("--cgroup: {} is not there", dir.display()))),
        None => Ok(()),
    }
}
