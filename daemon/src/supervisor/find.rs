//! Where a sandbox's shim is: answering, there but mute, or gone. The three must never be taken for each other: a
//! mute shim's containers live.

use super::{Process, Shim};
use crate::pod::{Error, PodPaths};
use berth_core::SandboxId;
use berth_proto::shim::{FRAME_MAX, InfoRequest, InfoResponse, LEVEL, ShimClient};
use berth_proto::ttrpc::{Client, socket};
use std::io::ErrorKind;
use std::time::Duration;

/// How long a shim may take to say who it is.
const INFO_WITHIN: Duration = Duration::from_secs(5);
/// The oldest level that is still spoken.
const OLDEST_LEVEL: u32 = 1;

/// What was found.
#[derive(Debug)]
pub(crate) enum Found {
    /// It answers.
    Shim(Shim),
    /// It does not answer, or not in words that are known here.
    Mute {
        /// Its process, if that is known.
        process: Option<Process>,
        /// It is well, but of a level that is not known here: it must be left alone.
        foreign: bool,
        /// What was tried.
        why: Error,
    },
    /// There is none: nobody listens and no process of it lives.
    Nobody,
}

/// Looks for the shim of a sandbox. `pid` is its process id, if it was written down somewhere.
pub(crate) async fn find(paths: &PodPaths, id: SandboxId, pid: Option<u32>) -> Found {
    let by_number = || pid.or_else(|| written(paths)).and_then(|pid| Process::of(pid, id));
    match socket::connect(&paths.socket).await {
        Ok(stream) => {
            let peer = stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
            let process = peer.and_then(|pid| Process::of(pid, id)).or_else(by_number);
            greet(ShimClient::new(Client::new(stream, FRAME_MAX)), id, process).await
        }
        Err(error) => {
            let nobody_listens = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
            match by_number() {
                None if nobody_listens => Found::Nobody,
                process => Found::Mute {
                    process,
                    foreign: false,
                    why: Error::internal("connect to the shim", error),
                },
            }
        }
    }
}

/// `Info` comes first: nothing else is said to a shim of an unknown level.
pub(super) async fn greet(client: ShimClient, id: SandboxId, process: Option<Process>) -> Found {
    let mute = |foreign, why| Found::Mute { process: process.clone(), foreign, why };
    let info = match client.info(&InfoRequest {}, INFO_WITHIN).await {
        Ok(info) => info,
        Err(error) => return mute(false, Error::internal("ask the shim who it is", error)),
    };
    match strange(&info, id) {
        Some(why) => mute(true, Error::internal("ask the shim who it is", why)),
        None => Found::Shim(Shim::new(client, id, info, process)),
    }
}

fn strange(info: &InfoResponse, id: SandboxId) -> Option<String> {
    if info.sandbox_id != id.as_str() {
        return Some(format!("it serves sandbox {}", info.sandbox_id));
    }
    let known = (OLDEST_LEVEL..=LEVEL).contains(&info.level);
    (!known).then(|| {
        format!("it speaks level {} ({}); known are {OLDEST_LEVEL} to {LEVEL}", info.level, info.build)
    })
}

/// The process id that was written down at the launch.
fn written(paths: &PodPaths) -> Option<u32> {
    std::fs::read_to_string(paths.file(super::launch::PID_FILE)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SandboxId {
        SandboxId::parse(&"c".repeat(64)).unwrap()
    }

    #[tokio::test]
    async fn nobody_is_told_from_somebody_who_does_not_answer() {
        let dir = tempfile::tempdir().unwrap();
        let paths = PodPaths::new(dir.path(), id());
        assert!(matches!(find(&paths, id(), None).await, Found::Nobody));
        std::fs::create_dir_all(paths.socket.parent().unwrap()).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(&paths.socket).unwrap();
        let found = find(&paths, id(), None).await;
        assert!(matches!(found, Found::Mute { foreign: false, .. }), "{found:?}");
        drop(listener);
        assert!(matches!(find(&paths, id(), None).await, Found::Nobody), "a stale socket");
    }

    #[tokio::test]
    #[expect(clippy::zombie_processes, reason = "what is tested here reaps it")]
    async fn a_live_process_without_a_socket_is_mute_and_can_be_ended() {
        let dir = tempfile::tempdir().unwrap();
        let paths = PodPaths::new(dir.path(), id());
        std::fs::create_dir_all(&paths.dir).unwrap();
        let mut child = std::process::Command::new("sh");
        let child =
            child.args(["-c", "sleep 30; true", "berth-shim", "--sandbox", id().as_str()]).spawn().unwrap();
        std::fs::write(paths.file("shim.pid"), child.id().to_string()).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(matches!(find(&paths, id(), None).await, Found::Mute { process: Some(_), .. }));
        super::super::end_at(&paths, id(), None).await.unwrap();
        assert!(matches!(find(&paths, id(), None).await, Found::Nobody));
    }
}
