//! Scripted misbehaviour: which requests, how often, and what goes wrong.

use hyper::StatusCode;
use std::time::Duration;

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Act {
    /// Another status instead of the answer.
    Status(StatusCode),
    /// One bit of the body is wrong.
    FlipBit,
    /// The body ends early and the connection is closed.
    Truncate(usize),
    /// The answer comes late.
    Delay(Duration),
    /// The body trickles: so many bytes a second.
    Throttle(usize),
    /// The body travels in chunks, with no Content-Length.
    Chunked,
    /// No Docker-Content-Digest header.
    NoDigestHeader,
    /// A range is ignored: the whole body comes with 200.
    IgnoreRange,
    /// A range is refused with 400, even one that asks for everything.
    RefuseRange,
}

/// A rule: requests whose path contains `path` go wrong, `times` times.
#[derive(Clone, Debug)]
pub struct Fault {
    path: String,
    act: Act,
    left: Option<usize>,
}

impl Fault {
    /// Every request with this in its path goes wrong like this.
    pub fn on(path: &str, act: Act) -> Self {
        Self { path: path.to_owned(), act, left: None }
    }

    /// Only so often; then all is well.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.left = Some(times);
        self
    }

    /// What goes wrong for this path now, if anything; counts it.
    pub(super) fn take(&mut self, path: &str) -> Option<Act> {
        if !path.contains(&self.path) || self.left == Some(0) {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        Some(self.act.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{Act, Fault};

    #[test]
    fn a_fault_ends_after_its_times() {
        let mut fault = Fault::on("/blobs/", Act::FlipBit).times(2);
        assert!(fault.take("/v2/a/manifests/1").is_none());
        assert!(fault.take("/v2/a/blobs/x").is_some());
        assert!(fault.take("/v2/a/blobs/y").is_some());
        assert!(fault.take("/v2/a/blobs/z").is_none());
    }
}
