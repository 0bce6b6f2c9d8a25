//! What happened, told to containerd in the order in which it happened, again and again until it is taken.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::Timestamp;
use berth_proto::containerd::{self as wire, Any, EVENTS, Envelope, FORWARD, ForwardRequest};
use berth_proto::ttrpc::{CallError, Client};
use prost::Message;
use tokio::sync::Notify;

use super::serve;

/// What a containerd that is away has not been told. Beyond this the oldest is dropped: a containerd that starts anew
/// asks for the state of every task.
const OWED_MAX: usize = 4096;

/// One try takes no longer.
const TRY_MAX: Duration = Duration::from_secs(5);

/// Between tries, rising.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The events of this shim that containerd has not taken.
#[derive(Debug)]
pub(super) struct Events {
    namespace: String,
    address: Option<PathBuf>,
    owed: Mutex<VecDeque<ForwardRequest>>,
    news: Notify,
    less: Notify,
}

impl Events {
    /// To be told at containerd's ttrpc socket; without one they are for nobody.
    pub(super) fn new(namespace: String, address: Option<OsString>) -> Events {
        let address = address.filter(|address| !address.is_empty()).map(|address| {
            let bare = address.to_str().and_then(|text| text.strip_prefix("unix://")).map(PathBuf::from);
            bare.unwrap_or_else(|| PathBuf::from(address))
        });
        Events { namespace, address, owed: Mutex::default(), news: Notify::new(), less: Notify::new() }
    }

    /// A container was built.
    pub(super) fn create(&self, event: wire::TaskCreate) {
        self.tell("/tasks/create", "containerd.events.TaskCreate", &event);
    }

    /// Its program runs.
    pub(super) fn start(&self, id: &str, pid: u32) {
        let event = wire::TaskStart { container_id: id.to_owned(), pid };
        self.tell("/tasks/start", "containerd.events.TaskStart", &event);
    }

    /// A process has ended.
    pub(super) fn exit(&self, event: wire::TaskExit) {
        self.tell("/tasks/exit", "containerd.events.TaskExit", &event);
    }

    /// A container was deleted.
    pub(super) fn delete(&self, event: wire::TaskDelete) {
        self.tell("/tasks/delete", "containerd.events.TaskDelete", &event);
    }

    /// The kernel killed a process for lack of memory.
    pub(super) fn oom(&self, id: &str) {
        let event = wire::TaskOom { container_id: id.to_owned() };
        self.tell("/tasks/oom", "containerd.events.TaskOOM", &event);
    }

    /// A container was paused.
    pub(super) fn paused(&self, id: &str) {
        let event = wire::TaskOom { container_id: id.to_owned() };
        self.tell("/tasks/paused", "containerd.events.TaskPaused", &event);
    }

    /// A container goes on.
    pub(super) fn resumed(&self, id: &str) {
        let event = wire::TaskOom { container_id: id.to_owned() };
        self.tell("/tasks/resumed", "containerd.events.TaskResumed", &event);
    }

    /// An exec was asked for.
    pub(super) fn exec_added(&self, id: &str, exec_id: &str) {
        let event = wire::TaskExecAdded { container_id: id.to_owned(), exec_id: exec_id.to_owned() };
        self.tell("/tasks/exec-added", "containerd.events.TaskExecAdded", &event);
    }

    /// An exec's program runs.
    pub(super) fn exec_started(&self, id: &str, exec_id: &str, pid: u32) {
        let event = wire::TaskExecStarted { container_id: id.to_owned(), exec_id: exec_id.to_owned(), pid };
        self.tell("/tasks/exec-started", "containerd.events.TaskExecStarted", &event);
    }

    fn tell(&self, topic: &str, name: &str, event: &impl Message) {
        if self.address.is_none() {
            return;
        }
        let envelope = Envelope {
            timestamp: Some(serve::time(Timestamp::now())),
            namespace: self.namespace.clone(),
            topic: topic.to_owned(),
            event: Some(Any::of(name, event)),
        };
        let mut owed = self.owed();
        if owed.len() == OWED_MAX {
            owed.pop_front();
        }
        owed.push_back(ForwardRequest { envelope: Some(envelope) });
        drop(owed);
        self.news.notify_one();
    }

    /// Tells one after the other, for as long as the shim lives.
    pub(super) async fn deliver(self: Arc<Self>) {
        let Some(address) = self.address.clone() else { return };
        let (mut client, mut pause) = (None, PAUSE_MIN);
        loop {
            let Some(next) = self.owed().front().cloned() else {
                // Idle: the connection is not worth its buffers.
                self.news.notified().await;
                continue;
            };
            match forward(&address, &mut client, &next).await {
                Ok(()) => {
                    pause = PAUSE_MIN;
                    let mut owed = self.owed();
                    // Unless it was the oldest of too many.
                    if owed.front() == Some(&next) {
                        owed.pop_front();
                    }
                    drop(owed);
                    self.less.notify_waiters();
                }
                Err(error) => {
                    crate::say!("tell containerd: {error}; it is tried again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Waits until everything has been told, but not for ever.
    pub(super) async fn told(&self, limit: Duration) {
        let all = async {
            loop {
                let less = self.less.notified();
                if self.address.is_none() || self.owed().is_empty() {
                    return;
                }
                less.await;
            }
        };
        let _nobody_listens = tokio::time::timeout(limit, all).await;
    }

    fn owed(&self) -> MutexGuard<'_, VecDeque<ForwardRequest>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One try. What containerd refuses is not tried again.
async fn forward(address: &Path, client: &mut Option<Client>, event: &ForwardRequest) -> Result<(), String> {
    if client.as_ref().is_none_or(Client::is_closed) {
        *client = Some(Client::connect(address).await.map_err(|error| error.to_string())?);
    }
    let Some(connected) = client.as_ref() else { return Ok(()) };
    let answer: Result<wire::Empty, _> = connected.call(EVENTS, FORWARD, event, Some(TRY_MAX)).await;
    match answer {
        Ok(_) => Ok(()),
        Err(error @ CallError::Refused { .. }) => {
            crate::say!("containerd refuses an event: {error}");
            Ok(())
        }
        Err(error) => {
            *client = None;
            Err(error.to_string())
        }
    }
}
