//! The long poll of one shim. It is also the shim's heartbeat: no answer in time means that it is deaf.

use crate::pod::faults;
use crate::pod::machine::Exit;
use crate::supervisor::Shim;
use berth_core::{ContainerId, Timestamp};
use berth_proto::shim::{Event, EventsRequest, InfoRequest, event::Kind};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long a shim may hold a poll back.
const WAIT: Duration = Duration::from_secs(20);
/// Pause before a fact that could not be saved is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// What the intake tells the pod.
#[derive(Debug)]
pub(crate) enum Report {
    /// A container's process ended; told once it is saved.
    Exited(ContainerId, Exit, oneshot::Sender<()>),
    /// The shim is dead or deaf.
    Lost(String),
}

/// Takes in a shim's events until it is lost or the pod is gone.
pub(crate) async fn intake(shim: Shim, reports: mpsc::Sender<Report>) {
    let cause = tokio::select! {
        () = shim.ended() => "the shim's process ended".to_owned(),
        cause = poll(&shim, &reports) => cause,
        () = reports.closed() => return,
    };
    // A pod that is gone needs no news.
    let _ = reports.send(Report::Lost(cause)).await;
}

async fn poll(shim: &Shim, reports: &mpsc::Sender<Report>) -> String {
    let mut acked = 0;
    loop {
        let wait_ms = u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX);
        match shim.events(&EventsRequest { acked, wait_ms }).await {
            Ok(answer) => {
                let taken = take(answer.events, acked, reports).await;
                if taken.stuck {
                    tokio::time::sleep(AGAIN).await;
                }
                acked = taken.acked;
            }
            Err(error) if shim.is_closed() => return format!("the connection to the shim ended: {error}"),
            Err(error) => {
                if let Err(deaf) = shim.info(&InfoRequest {}).await {
                    if let Err(error) = shim.kill_hard().await {
                        tracing::error!(%error, "a deaf shim could not be killed");
                    }
                    return format!("the shim does not answer and was killed: {deaf}");
                }
                tracing::warn!(%error, "a shim refused to tell its events; asked again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

struct Taken {
    acked: u64,
    stuck: bool,
}

/// Hands events to the pod in their order. The first that is not saved, and all behind it, are asked for again.
async fn take(events: Vec<Event>, acked: u64, reports: &mpsc::Sender<Report>) -> Taken {
    let mut saved = Vec::with_capacity(events.len());
    for event in events {
        let seq = event.seq;
        saved.push((seq, hand_over(event, reports).await));
    }
    let mut taken = Taken { acked, stuck: false };
    for (seq, done) in saved {
        let fine = match done {
            Some(done) => done.await.is_ok() && faults::EXIT_SAVED.pass().is_ok(),
            None => true,
        };
        if !fine {
            taken.stuck = true;
            return taken;
        }
        taken.acked = seq;
    }
    taken
}

/// Gives a fact to the pod; what comes back is told once it is saved. Facts that nobody needs to save give nothing.
async fn hand_over(event: Event, reports: &mpsc::Sender<Report>) -> Option<oneshot::Receiver<()>> {
    let Ok(id) = ContainerId::parse(&event.id) else {
        tracing::warn!(id = event.id, "a shim told something about no container");
        return None;
    };
    match event.kind {
        Some(Kind::Exit(exit)) => {
            let (done, end) = oneshot::channel();
            let exit = from_wire(&exit);
            tracing::info!(container = %id, code = exit.code, oom = exit.oom, cause = exit.cause, "a container ended");
            let _ = reports.send(Report::Exited(id, exit, done)).await;
            Some(end)
        }
        Some(Kind::Oom(oom)) => {
            tracing::info!(container = %id, kills = oom.kills, "the kernel killed for memory");
            None
        }
        None => None,
    }
}

/// An exit as the pod wants it.
pub(crate) fn from_wire(exit: &berth_proto::shim::Exit) -> Exit {
    Exit {
        code: i32::try_from(exit.code).unwrap_or(255),
        at: Timestamp(exit.exited_at),
        oom: exit.oom_killed,
        cause: exit.cause.clone(),
    }
}
