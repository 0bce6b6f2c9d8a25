//! What network plugins still hold for pods that are gone: freed after a start, when every attachment is known.

use crate::blocking::Room;
use crate::pod::{Error, Ground};
use berth_network::Attachment;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

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
    match stranger(&ground.netns_dir, &known.all) {
        Some(name) => Err(format!(
            "{name} in {} is nobody's that is known here: another runtime's, with its addresses",
            ground.netns_dir.display()
        )),
        None => Ok(()),
    }
}

/// A network namespace that no pod of this daemon has: its owner, a second berthd for one, may have addresses of the same
/// networks.
fn stranger(dir: &Path, known: &[Attachment]) -> Option<String> {
    let own: BTreeSet<&Path> = known.iter().map(|attachment| attachment.pod.netns.as_path()).collect();
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let others = entries.filter(|entry| !own.contains(entry.path().as_path()));
    others.filter_map(|entry| entry.file_name().into_string().ok()).min()
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
    use berth_network::PodNet;
    use berth_network::attachment::By;

    fn attachment(netns: std::path::PathBuf) -> Attachment {
        let pod = PodNet { netns, ..PodNet::default() };
        Attachment {
            pod,
            by: By::None,
            attached: true,
            interface: "eth0".to_owned(),
            mac: None,
            ips: Vec::new(),
        }
    }

    #[test]
    fn a_pin_that_no_pod_here_has_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(stranger(&dir.path().join("missing"), &[]), None);
        std::fs::write(dir.path().join("berth-1"), "").unwrap();
        let own = [attachment(dir.path().join("berth-1"))];
        assert_eq!(stranger(dir.path(), &own), None);
        // A second daemon's looks like ours.
        std::fs::write(dir.path().join("berth-2"), "").unwrap();
        assert_eq!(stranger(dir.path(), &own).as_deref(), Some("berth-2"));
    }
}
