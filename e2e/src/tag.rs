//! Names that are unique per run and per node, and say whose they are.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// What every name of a test begins with; `clean` looks for it.
pub const PREFIX: &str = "berth-e2e-";

static RUN: LazyLock<String> = LazyLock::new(|| {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = time.map_or(0, |t| u64::from(t.subsec_nanos()) ^ (t.as_secs() << 20));
    let mixed = nanos.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id()) << 24;
    format!("{:06x}", (mixed >> 24) & 0xff_ffff)
});

static NODES: AtomicU32 = AtomicU32::new(0);

/// The tag of one node of this run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(String);

impl Tag {
    /// A tag that no other node has.
    pub fn next() -> Self {
        let node = NODES.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}-{node:02x}", *RUN))
    }

    /// The name of everything of this node that has a name of its own: `berth-e2e-<run>-<node>`.
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }

    /// The name of its bridge, within the 15 bytes of a link's name.
    pub fn bridge(&self) -> String {
        format!("be{}", self.0.replace('-', "x"))
    }
}

#[cfg(test)]
mod tests {
    use super::Tag;

    #[test]
    fn tags_differ_and_bridges_fit() {
        let (one, two) = (Tag::next(), Tag::next());
        assert_ne!(one, two);
        assert_ne!(one.bridge(), two.bridge());
        assert!(one.bridge().len() <= 15, "{}", one.bridge());
        assert!(one.name().starts_with("berth-e2e-"));
    }
}
