//! Whom the first process runs as: said here, looked up in the container's own files by its init.

use super::super::{ContainerConfig, GroupsPolicy};
use crate::pod::{Error, ImageForContainer};

/// The largest id that a file can belong to.
const ID_MAX: i64 = u32::MAX as i64 - 1;
const CONTEXT: &str = "config.linux.security_context";

/// A user to be looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunAs {
    /// "", name, uid, name:group or uid:gid.
    pub(crate) name: String,
    /// A group that wins over the name's.
    pub(crate) gid: Option<i64>,
    /// Supplemental groups asked for.
    pub(crate) supplemental: Vec<i64>,
    /// The image's groups of the user count too.
    pub(crate) merge: bool,
}

/// The request's user, else the image's.
///
/// # Errors
/// An id that cannot be, or a group without a user.
pub(crate) fn run_as(config: &ContainerConfig, image: &ImageForContainer) -> Result<RunAs, Error> {
    let security = &config.security;
    let ids = [("run_as_user", security.run_as_user), ("run_as_group", security.run_as_group)];
    for (field, id) in ids {
        check(field, id)?;
    }
    for group in &security.supplemental_groups {
        check("supplemental_groups", Some(*group))?;
    }
    let asked = match (security.run_as_user, security.run_as_username.as_str()) {
        (Some(_), name) if !name.is_empty() => {
            return Err(Error::invalid(
                format!("{CONTEXT}.run_as_username"),
                "may not stand beside run_as_user",
            ));
        }
        (Some(uid), _) => uid.to_string(),
        (None, name) => name.to_owned(),
    };
    if asked.is_empty() && security.run_as_group.is_some() {
        let problem = "needs run_as_user or run_as_username beside it";
        return Err(Error::invalid(format!("{CONTEXT}.run_as_group"), problem));
    }
    if asked.contains([':', '\n', '\0']) {
        return Err(Error::invalid(
            format!("{CONTEXT}.run_as_username"),
            "holds a colon, line end or NUL byte",
        ));
    }
    let name = if asked.is_empty() { image.user.clone() } else { asked };
    let (gid, supplemental) = (security.run_as_group, security.supplemental_groups.clone());
    Ok(RunAs { name, gid, supplemental, merge: security.groups_policy == GroupsPolicy::Merge })
}

fn check(field: &str, id: Option<i64>) -> Result<(), Error> {
    match id {
        Some(id) if !(0..=ID_MAX).contains(&id) => {
            Err(Error::invalid(format!("{CONTEXT}.{field}"), format!("{id} is no id: 0 to {ID_MAX}")))
        }
        _ => Ok(()),
    }
}
