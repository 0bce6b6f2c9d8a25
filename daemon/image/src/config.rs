//! The image's own wishes for its containers. All of it is hostile input: nothing here is a host path or a key that
//! the daemon acts on by itself.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The `config` object of an image configuration, with Docker's and OCI's names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ImageConfig {
    /// `USER`: `name`, `uid`, `name:group` or `uid:gid`, as written.
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    /// Environment, `NAME=value` in the image's order. JSON cannot carry other bytes than UTF-8.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<String>,
    /// `ENTRYPOINT`.
    #[serde(deserialize_with = "or_default")]
    pub entrypoint: Vec<String>,
    /// `CMD`.
    #[serde(deserialize_with = "or_default")]
    pub cmd: Vec<String>,
    /// `WORKDIR`.
    #[serde(deserialize_with = "or_default")]
    pub working_dir: String,
    /// Paths declared by `VOLUME`.
    #[serde(deserialize_with = "keys", serialize_with = "as_map")]
    pub volumes: BTreeSet<String>,
    /// `STOPSIGNAL`, as written.
    #[serde(deserialize_with = "or_default")]
    pub stop_signal: String,
    /// Labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Ports declared by `EXPOSE`, `80/tcp`.
    #[serde(deserialize_with = "keys", serialize_with = "as_map")]
    pub exposed_ports: BTreeSet<String>,
}

impl ImageConfig {
    /// What ImageStatus reports of `USER`: a uid, or a user name, never both, and never the group part.
    #[must_use]
    pub fn status_user(&self) -> StatusUser {
        let user = self.user.split(':').next().unwrap_or_default();
        if user.is_empty() {
            return StatusUser::Unset;
        }
        match user.parse::<i64>() {
            Ok(uid) => StatusUser::Uid(uid),
            Err(_) => StatusUser::Name(user.to_owned()),
        }
    }
}

/// The user part of `USER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusUser {
    /// The image names none.
    Unset,
    /// A number.
    Uid(i64),
    /// A name to be looked up in the image.
    Name(String),
}

/// Go writes empty slices and maps as null.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// Sets are written as objects with empty values.
fn keys<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<String>, D::Error> {
    let map = Option::<BTreeMap<String, serde::de::IgnoredAny>>::deserialize(from)?;
    Ok(map.unwrap_or_default().into_keys().collect())
}

fn as_map<S: serde::Serializer>(set: &BTreeSet<String>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(set.iter().map(|key| (key, BTreeMap::<String, String>::new())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockers_object_is_read_with_its_nulls() {
        let text = r#"{"User":"www-data:staff","Env":["A=1"],"Entrypoint":null,"Cmd":["sh"],"WorkingDir":"/w",
            "Volumes":{"/data":{}},"StopSignal":"SIGINT","Labels":null,"ExposedPorts":{"80/tcp":{}},"Healthcheck":{}}"#;
        let config: ImageConfig = serde_json::from_str(text).unwrap();
        assert_eq!(config.status_user(), StatusUser::Name("www-data".into()));
        assert_eq!(config.volumes.iter().collect::<Vec<_>>(), ["/data"]);
        assert!(config.entrypoint.is_empty() && config.labels.is_empty());
        let again: ImageConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn the_group_part_is_never_the_user() {
        let user = |text: &str| ImageConfig { user: text.into(), ..ImageConfig::default() }.status_user();
        assert_eq!(user("33:10"), StatusUser::Uid(33));
        assert_eq!(user(":10"), StatusUser::Unset);
        assert_eq!(user(""), StatusUser::Unset);
        assert_eq!(user("app"), StatusUser::Name("app".into()));
    }
}
