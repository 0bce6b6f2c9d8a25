//! What a worker tells about the layer it applied, or about why it could not.

use super::wire::ByteText;
use berth_snapshot::{Digest, RootAttributes};
use serde::{Deserialize, Serialize};

/// A layer that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Digest of the uncompressed tar.
    pub diff_id: Digest,
    /// Bytes of the uncompressed tar.
    pub tar_bytes: u64,
    /// Entries of the tar.
    pub entries: u64,
    /// Bytes the tree takes, in whole blocks.
    pub bytes: u64,
    /// Inodes the tree takes.
    pub inodes: u64,
    /// Directories that hide what is below; the mark is still to be set, since only the daemon may.
    pub opaque: Vec<ByteText>,
    /// Attributes of `/`, if the layer has an entry for it.
    pub root: Option<RootAttributes>,
    /// The layer hides everything below it.
    pub opaque_root: bool,
    /// What it needs from below.
    pub needs: Needs,
    /// Extended attributes that were left out: reserved for overlay, or not a container's to set.
    pub dropped_xattrs: u64,
}

impl Report {
    /// Whether what is left to do stays within the limits.
    ///
    /// # Errors
    /// [`FailureKind::TooBig`].
    pub fn within(&self, limits: &super::limits::Limits) -> Result<(), Failure> {
        let Needs { directories, whiteouts, links } = &self.needs;
        let count = directories.len() + whiteouts.len() + links.len() + self.opaque.len();
        let limit = limits.max_needs;
        if u64::try_from(count).is_ok_and(|count| count <= limit) {
            return Ok(());
        }
        let text = format!(
            "the layer has {count} whiteouts, directories without an entry, and hard links to lower layers; {limit} are allowed"
        );
        Err(Failure { kind: FailureKind::TooBig, text })
    }
}

/// What a layer needed from the layers below it and did not have. All paths are free of links and relative to the
/// root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// Directories without an entry of their own, parents first.
    pub directories: Vec<ByteText>,
    /// Whiteouts: only what is below can say whether they hide anything.
    pub whiteouts: Vec<ByteText>,
    /// Hard links whose target is not in the layer.
    pub links: Vec<NeedLink>,
}

/// A hard link to a file of a lower layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedLink {
    /// Where the link stands.
    pub path: ByteText,
    /// What it should be a name of, as the tar says; may lead through links.
    pub target: ByteText,
}

impl Needs {
    /// Whether the layer stands on its own.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.directories.is_empty() && self.whiteouts.is_empty() && self.links.is_empty()
    }
}

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The layer breaks the format or tries to leave its root.
    BadLayer,
    /// The layer asks for more than the limits allow.
    TooBig,
    /// The node has no space or inodes left.
    NoSpace,
    /// The bytes ended early: the fetch was given up.
    Truncated,
    /// Anything else.
    Internal,
}

/// A layer that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// Whose fault.
    pub kind: FailureKind,
    /// What happened, with the entry's path.
    pub text: String,
}
