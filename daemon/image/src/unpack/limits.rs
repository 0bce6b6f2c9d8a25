//! How much a layer may ask of the node.

use serde::{Deserialize, Serialize};

/// Bounds of one layer. Above them it is refused as a bomb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of the uncompressed tar.
    pub max_bytes: u64,
    /// Entries of the tar.
    pub max_entries: u64,
    /// Uncompressed bytes per compressed byte, counted above [`Limits::FREE_BYTES`]. Deflate itself ends near 1030.
    pub max_ratio: u64,
    /// Largest apparent size of a file, which a sparse one gets for nothing.
    pub max_file: u64,
    /// Directories without an entry, whiteouts, hard links to lower layers, and directories that hide what is below:
    /// what is settled one by one after the layers below are known.
    pub max_needs: u64,
    /// Bytes of lower layers copied into this one because it has hard links to them.
    pub max_copied: u64,
}

impl Limits {
    /// So many uncompressed bytes are never called a bomb.
    pub const FREE_BYTES: u64 = 256 << 20;

    /// Whether `output` bytes out of `input` are too many.
    #[must_use]
    pub fn is_bomb(&self, input: u64, output: u64) -> bool {
        let free = Self::FREE_BYTES.saturating_add(input.saturating_mul(self.max_ratio));
        output > self.max_bytes || output > free
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 256 << 30,
            max_entries: 8 << 20,
            max_ratio: 1200,
            max_file: 1 << 40,
            max_needs: 1 << 18,
            max_copied: 32 << 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_layers_may_be_all_zeros_but_large_ones_not() {
        let limits = Limits::default();
        assert!(!limits.is_bomb(100, 200 << 20));
        assert!(!limits.is_bomb(1 << 20, 1030 << 20));
        assert!(limits.is_bomb(1 << 20, 2 << 30));
        assert!(limits.is_bomb(u64::MAX, (256 << 30) + 1));
    }
}
