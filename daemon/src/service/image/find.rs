//! Which image a caller means.

use berth_core::{Error, Result};
use berth_image::{ImageIndex, ImageRecord, lookup};

/// Fewest digits of an id that stand for the whole. Fewer could be somebody's image name.
const DIGITS: usize = 6;

/// The image that `name` names: an id, a tag, a name with digest, or the unique beginning of an id, as crictl shows
/// them.
///
/// # Errors
/// The beginning of several ids, or the store cannot be read.
pub(super) fn find(index: &dyn ImageIndex, name: &str) -> Result<Option<ImageRecord>> {
    if let Some(found) = lookup(index, name)? {
        return Ok(Some(found));
    }
    let digits = name.strip_prefix("sha256:").unwrap_or(name);
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() < DIGITS || !digits.bytes().all(hex) {
        return Ok(None);
    }
    let mut fitting = index.images()?.into_iter().filter(|image| image.id.hex().starts_with(digits));
    match (fitting.next(), fitting.next()) {
        (Some(_), Some(_)) => {
            Err(Error::invalid(format!("{name:?} is the beginning of more than one image id")))
        }
        (found, _) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_image::{Digest, ImageConfig, PulledImage};
    use berth_store::Store;

    fn put(store: &Store, hex: &str) {
        let image = PulledImage {
            id: Digest::parse(&format!("sha256:{hex:0<64}")).unwrap(),
            repo_tag: None,
            repo_digest: format!("docker.io/library/x@sha256:{hex:1<64}"),
            config: ImageConfig::default(),
            layers: Vec::new(),
            size: 0,
        };
        store.commit_image(&image).unwrap();
    }

    #[test]
    fn a_unique_beginning_is_enough_and_a_short_one_is_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        put(&store, "abcdef01");
        put(&store, "abcdef02");
        let hex =
            |name: &str| find(&store, name).map(|found| found.map(|image| image.id.hex()[..8].to_owned()));
        assert_eq!(hex("abcdef01").unwrap().as_deref(), Some("abcdef01"));
        assert_eq!(hex("sha256:abcdef02").unwrap().as_deref(), Some("abcdef02"));
        assert!(hex("abcdef").is_err());
        assert_eq!(hex("abcd").unwrap(), None);
        assert_eq!(hex("ABCDEF01").unwrap(), None);
        assert_eq!(hex("abcdef03").unwrap(), None);
    }
}
