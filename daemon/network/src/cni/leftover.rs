//! Attachments whose DEL keeps failing: when the pod may go without it, and when DEL is tried again.
//!
//! A failing DEL is the kubelet's to repeat. But a plugin that was uninstalled, or that cannot do its work without a
//! namespace that went with the last boot, would keep a pod terminating for ever: then the attachment moves to a
//! queue of leftovers, is tried again for as long as it takes, and the pod may go.

use serde::{Deserialize, Serialize};

use crate::attachment::Attachment;
use crate::error::NetworkError;

/// So often must DEL have failed before it is parked.
const TRIES: u32 = 3;
/// And for so long, in seconds.
const SPAN: u64 = 60;
/// The longest pause between tries of a leftover, in seconds.
const LONGEST_PAUSE: u64 = 3600;

/// How DEL of one attachment has failed so far. Saved beside the attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// How often.
    pub tries: u32,
    /// Seconds since the epoch of the first failure.
    pub first: u64,
    /// Seconds since the epoch of the last failure.
    pub last: u64,
    /// What the last one said.
    pub message: String,
    /// Whether a plugin that DEL needs is not on this node any more.
    pub plugin_gone: bool,
}

/// What to do with an attachment whose DEL has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Tell the caller, who will try again.
    Tell,
    /// Move the attachment to the leftovers and let the pod go.
    Park,
}

impl Failures {
    /// Notes a failure at a time, after those before.
    pub fn note(before: Option<&Self>, now: u64, error: &NetworkError) -> Self {
        Self {
            tries: before.map_or(0, |b| b.tries).saturating_add(1),
            first: before.map_or(now, |b| b.first),
            last: now,
            message: berth_core::error::chain(error),
            plugin_gone: error.plugin_gone(),
        }
    }

    /// Decides, given whether the pod's namespace is gone.
    pub fn next(&self, netns_gone: bool) -> Next {
        // A clock that was set back makes the span zero, so DEL is only tried for longer.
        let long = self.last.saturating_sub(self.first) >= SPAN;
        if self.plugin_gone || netns_gone && self.tries >= TRIES && long { Next::Park } else { Next::Tell }
    }
}

/// An attachment that outlived its pod. Saved until DEL succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// What is still attached.
    pub attachment: Attachment,
    /// How DEL has failed.
    pub failures: Failures,
}

impl Leftover {
    /// Whether DEL is to be tried at a time: pauses double from a minute to an hour.
    pub fn is_due(&self, now: u64) -> bool {
        let doubled = self.failures.tries.saturating_sub(TRIES).min(10);
        let pause = (SPAN << doubled).min(LONGEST_PAUSE);
        // A clock that was set back must not keep it waiting.
        now < self.failures.last || now - self.failures.last >= pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cni::CniError;

    fn failed() -> NetworkError {
        CniError::NoAddress { network: "n".into() }.into()
    }

    #[test]
    fn a_pod_goes_after_three_tries_and_a_minute_without_its_namespace() {
        let mut failures = Failures::note(None, 100, &failed());
        assert_eq!(failures.next(true), Next::Tell);
        for now in [110, 120, 159] {
            failures = Failures::note(Some(&failures), now, &failed());
            assert_eq!(failures.next(true), Next::Tell, "{now}");
        }
        failures = Failures::note(Some(&failures), 160, &failed());
        assert_eq!(failures.next(false), Next::Tell, "its namespace lives");
        assert_eq!(failures.next(true), Next::Park);
        assert_eq!((failures.tries, failures.first), (5, 100));
    }

    #[test]
    fn a_missing_plugin_parks_at_once_and_a_clock_set_back_does_not() {
        let gone = CniError::PluginMissing { plugin: "p".into(), network: "n".into(), dirs: "d".into() };
        assert_eq!(Failures::note(None, 5, &gone.into()).next(false), Next::Park);
        let mut failures = Failures::note(None, 1_000_000, &failed());
        for now in [3, 4, 5] {
            failures = Failures::note(Some(&failures), now, &failed());
        }
        assert_eq!(failures.next(true), Next::Tell);
    }

    #[test]
    fn pauses_double_up_to_an_hour() {
        let failures =
            |tries| Failures { tries, first: 0, last: 1000, message: String::new(), plugin_gone: false };
        let attachment = crate::Attachment {
            pod: crate::PodNet::default(),
            by: crate::attachment::By::None,
            attached: true,
            interface: "eth0".into(),
            mac: None,
            ips: vec![],
        };
        for (tries, pause) in [(1, 60), (3, 60), (4, 120), (6, 480), (30, 3600), (u32::MAX, 3600)] {
            let left = Leftover { attachment: attachment.clone(), failures: failures(tries) };
            assert!(!left.is_due(1000 + pause - 1), "{tries}");
            assert!(left.is_due(1000 + pause), "{tries}");
            assert!(left.is_due(10), "the clock was set back");
        }
    }
}
