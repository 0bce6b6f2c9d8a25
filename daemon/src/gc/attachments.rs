//! What network plugins still hold for pods that are gone: freed after a start, when every attachment is known.

use crate::blocking::Room;
use crate::pod::{Error, Ground};
use berth_network::Attachment;
use std::path::Path;
use std::sync::Arc;

/// How pins of this daemon begin, and those of older ones.
const OWN: &str = "berth-";

/// What is known of the node's attachments.
pub(crate) struct Known {
    /// All of them: pods' and leftovers'.
    pub(crate) all: Vec<Attachment>,
    /// Every record could be read, so there are no others.
    pub(crate) whole: bool,
}

/// Tells plugins which attachments live, so that they free the rest, and looks whether those are still as they were
/// made. New pods wait for it: a plugin would free what it gives them meanwhile. Nobody else does.
pub(crate) fn settle(ground: &Arc<Ground>, known: Known) {
    let ground = Arc::clone(ground);
    // Held from here on, before anybody can ask for a pod.
    let Ok(alone) = Arc::clone(&ground.attaching).try_write_owned() else { return };
    tokio::spawn(async move {
        let base = Arc::clone(&ground);
        let collected = ground.block_in(Room::Detach, "free attachments of pods that are gone", move || {
            match may_collect(&base, &known) {
                Ok(()) => base.network.gc(&known.all).map_err(|error| Error::step("CNI GC", &error))?,
                Err(why) => tracing::info!(why, "plugins are not told which attachments live (CNI GC)"),
            }
            Ok(known.all)
        });
        let collected = collected.await;
        drop(alone);
        match collected {
            Ok(all) => check(&ground, all).await,
            Err(error) => tracing::warn!(%error, "addresses of pods that are gone may not be free"),
        }
    });
}

/// Whether what is not listed belongs to nobody.
fn may_collect(ground: &Ground, known: &Known) -> Result<(), String> {
    if !known.whole {
        return Err("not every record can be read".to_owned());
    }
    match stranger(&ground.netns_dir) {
        Some(name) => {
            Err(format!("{name} in {} is another runtime's, with its addresses", ground.netns_dir.display()))
        }
        None => Ok(()),
    }
}

/// A network namespace that another runtime has pinned: its pods may have addresses of the same networks.
fn stranger(dir: &Path) -> Option<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with(OWN)).min()
}

/// A pod that has lost its network is told in the log; whether it is to go is the kubelet's decision.
async fn check(ground: &Arc<Ground>, all: Vec<Attachment>) {
    for attachment in all.into_iter().filter(|attachment| attachment.attached) {
        let (base, id) = (Arc::clone(ground), attachment.pod.sandbox.clone());
        let checked = ground.block_in(Room::Detach, "check an attachment", move || {
            base.network.check(&attachment).map_err(|error| Error::step("CNI CHECK", &error))
        });
        if let Err(error) = checked.await {
            tracing::warn!(sandbox = id, %error, "a pod is not attached to its network as it was");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_runtimes_pin_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(stranger(&dir.path().join("missing")), None);
        std::fs::write(dir.path().join("berth-1"), "").unwrap();
        assert_eq!(stranger(dir.path()), None);
        std::fs::write(dir.path().join("cni-1"), "").unwrap();
        assert_eq!(stranger(dir.path()).as_deref(), Some("cni-1"));
    }
}
