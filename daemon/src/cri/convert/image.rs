//! Images: wire words to plain values and back.

use crate::service::image::fs_info::{FsInfo, Used};
use berth_core::{Error, Result};
use berth_image::{ImageRecord, RegistryAuth, StatusUser};
use berth_proto::cri;
use std::collections::HashMap;

/// The name in an image spec.
///
/// # Errors
/// It is empty.
pub fn name(spec: &cri::ImageSpec) -> Result<String> {
    match spec.image.trim() {
        "" => Err(Error::invalid("image.image is empty")),
        name => Ok(name.to_owned()),
    }
}

/// Credentials.
#[must_use]
pub fn auth(auth: cri::AuthConfig) -> RegistryAuth {
    RegistryAuth {
        username: auth.username,
        password: auth.password,
        auth: auth.auth,
        server_address: auth.server_address,
        identity_token: auth.identity_token,
        registry_token: auth.registry_token,
    }
}

/// An image.
#[must_use]
pub fn image(record: &ImageRecord) -> cri::Image {
    let (uid, username) = match record.config.status_user() {
        StatusUser::Unset => (None, String::new()),
        StatusUser::Uid(value) => (Some(cri::Int64Value { value }), String::new()),
        StatusUser::Name(name) => (None, name),
    };
    cri::Image {
        id: record.id.to_string(),
        repo_tags: record.repo_tags.clone(),
        repo_digests: record.repo_digests.clone(),
        size: record.size,
        uid,
        username,
        spec: Some(cri::ImageSpec { image: record.id.to_string(), ..cri::ImageSpec::default() }),
        pinned: false,
    }
}

/// What a verbose status says besides.
#[must_use]
pub fn info(record: &ImageRecord) -> HashMap<String, String> {
    let layers: Vec<&str> = record.layers.iter().map(|layer| layer.as_str()).collect();
    let text = serde_json::json!({ "imageSpec": { "config": record.config }, "layers": layers }).to_string();
    HashMap::from([("info".to_owned(), text)])
}

/// Used space.
#[must_use]
pub fn fs_info(info: &FsInfo) -> cri::ImageFsInfoResponse {
    let usage = |used: &Used| cri::FilesystemUsage {
        timestamp: used.at.nanos(),
        fs_id: Some(cri::FilesystemIdentifier { mountpoint: info.directory.clone() }),
        used_bytes: Some(cri::UInt64Value { value: used.bytes }),
        inodes_used: Some(cri::UInt64Value { value: used.inodes }),
    };
    cri::ImageFsInfoResponse {
        image_filesystems: vec![usage(&info.images)],
        container_filesystems: info.containers.as_ref().map(usage).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_image::{Digest, ImageConfig};

    fn record(user: &str) -> ImageRecord {
        ImageRecord {
            id: Digest::parse(&format!("sha256:{}", "a".repeat(64))).unwrap(),
            repo_tags: vec!["docker.io/library/x:1".into()],
            repo_digests: vec![],
            config: ImageConfig { user: user.into(), ..ImageConfig::default() },
            layers: vec![],
            size: 7,
        }
    }

    #[test]
    fn an_image_has_a_uid_or_a_name_and_never_both() {
        let user = |text: &str| {
            let image = image(&record(text));
            (image.uid.map(|uid| uid.value), image.username)
        };
        assert_eq!(user("www-data:staff"), (None, "www-data".into()));
        assert_eq!(user("33:10"), (Some(33), String::new()));
        assert_eq!(user("www-data:nogroup-here"), (None, "www-data".into()));
        assert_eq!(user(":10"), (None, String::new()));
        assert_eq!(user(""), (None, String::new()));
    }

    #[test]
    fn verbose_info_is_json_with_the_images_wishes() {
        let text = &info(&record("x"))["info"];
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(value["imageSpec"]["config"]["User"], "x");
    }

    #[test]
    fn an_empty_name_names_its_field() {
        let error = name(&cri::ImageSpec::default()).unwrap_err();
        assert!(error.to_string().contains("image.image"));
    }
}
