//! What a pod decides: a request or a fact comes in, a changed state and a list of effects go out.
//!
//! Nothing here waits, reads a clock or touches the system, so random orders of inputs can be thrown at it.
//! Whoever asked is a number; the answer is an effect. Facts are saved before they are answered for: such
//! answers travel inside [`Effect::Save`].

mod create;
mod effect;
mod ending;
mod exit;
mod lost;
mod remove;
mod run;
mod slot;
mod start;
mod stop;
#[cfg(test)]
mod tests;
mod update;

pub use effect::{Draft, Effect, Saved, Write};
pub(crate) use slot::{Op, Slot};

use super::Error;
use crate::container::ContainerRecord;
use crate::sandbox::{Resources, SandboxConfig, SandboxNetwork, SandboxRecord};
use berth_core::{ContainerId, SandboxId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Somebody who waits for an answer.
pub type Waiter = u64;
/// A fact of a shim that waits to be acknowledged.
pub type Ack = u64;

/// What callers ask of a pod.
#[derive(Debug, Clone)]
pub enum Request {
    /// RunPodSandbox for this pod's key: starts it the first time, joins or compares afterwards.
    Run(Box<SandboxConfig>),
    /// StopPodSandbox.
    StopSandbox,
    /// RemovePodSandbox.
    RemoveSandbox,
    /// CreateContainer; the id and time are used if it is a new one.
    Create(Draft),
    /// StartContainer.
    Start(ContainerId),
    /// StopContainer with its grace period.
    Stop(ContainerId, Duration),
    /// RemoveContainer.
    Remove(ContainerId),
    /// UpdateContainerResources.
    Update(ContainerId, Box<Resources>),
}

/// What a pod answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It is so.
    Done,
    /// The sandbox's id.
    Sandbox(SandboxId),
    /// The container's id.
    Container(ContainerId),
}

/// How a container's process ended, as its shim tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// 0-255, 128+N after signal N.
    pub code: i32,
    /// When.
    pub at: Timestamp,
    /// The kernel killed it for its memory.
    pub oom: bool,
    /// Why no real code is known, else empty.
    pub cause: String,
}

/// Why StartContainer's effect failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartFailure {
    /// The program could not be started.
    Refused(Error),
    /// The shim did not answer: whether it started is settled by what the shim, or its death, tells.
    NoAnswer(Error),
}

/// What comes in.
#[derive(Debug)]
pub enum Input {
    /// A caller's request.
    Request(Request, Waiter),
    /// [`Effect::Run`] ended; what could not be undone comes with the failure.
    Ran(Result<Box<SandboxRecord>, (Error, Option<Box<SandboxRecord>>)>),
    /// [`Effect::Teardown`] ended; the network as it is now comes in both cases.
    TornDown(Box<SandboxNetwork>, Result<(), Error>),
    /// [`Effect::Unmake`] ended.
    Unmade(Result<(), Error>),
    /// [`Effect::Create`] ended.
    Created(ContainerId, Result<Box<ContainerRecord>, Error>),
    /// [`Effect::Start`] ended.
    Started(ContainerId, Result<Timestamp, StartFailure>),
    /// [`Effect::Delete`] ended.
    Deleted(ContainerId, Result<(), Error>),
    /// [`Effect::Update`] ended.
    Updated(ContainerId, Box<Resources>, Result<(), Error>, Waiter),
    /// [`Effect::KillCgroup`] ended.
    CgroupKilled(ContainerId, Result<(), Error>),
    /// [`Effect::KillAll`] ended.
    AllKilled,
    /// [`Effect::Timer`] ran out.
    Timer(ContainerId, u32),
    /// The shim, found again, tells that a container's program runs.
    Running(ContainerId, Timestamp),
    /// A container's process ended.
    Exited(ContainerId, Exit, Ack),
    /// The shim is dead or deaf.
    ShimLost(String),
    /// A save ended without success; what it held must be saved again before a fact is acknowledged.
    SaveFailed(ContainerId),
}

/// The time at which something comes in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Now {
    /// Wall clock.
    pub wall: Timestamp,
    /// A clock that never steps.
    pub mono: Duration,
}

/// The sandbox itself.
#[derive(Debug)]
pub(crate) enum Sandbox {
    /// Its steps run.
    Creating(Box<Creating>),
    /// It is there.
    Known(Arc<SandboxRecord>),
    /// It has been undone or removed.
    Gone,
}

/// A sandbox whose steps run.
#[derive(Debug)]
pub(crate) struct Creating {
    /// What it will be.
    config: SandboxConfig,
    /// Since when.
    since: Timestamp,
    /// Who asked for it.
    waiters: Vec<Waiter>,
    /// Who asked to stop or remove it meanwhile.
    ending: Vec<Waiter>,
}

/// A pod: its sandbox, its containers, and what goes on with them.
#[derive(Debug)]
pub struct Machine {
    id: SandboxId,
    now: Now,
    sandbox: Sandbox,
    slots: BTreeMap<ContainerId, Slot>,
    ending: Option<ending::Ending>,
    lost: Option<String>,
    unsaved: BTreeSet<ContainerId>,
    /// Containers whose limits are being changed, and the changes that wait for it.
    updates: BTreeMap<ContainerId, VecDeque<(Resources, Waiter)>>,
    effects: Vec<Effect>,
}

impl Machine {
    /// A pod that does not exist yet; its first input is [`Request::Run`].
    #[must_use]
    pub fn new(id: SandboxId) -> Self {
        Self {
            id,
            now: Now::default(),
            sandbox: Sandbox::Gone,
            slots: BTreeMap::new(),
            ending: None,
            lost: None,
            unsaved: BTreeSet::new(),
            updates: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    /// A pod as the store and its shim tell it, after a restart of the daemon.
    #[must_use]
    pub fn restore(sandbox: SandboxRecord, containers: Vec<ContainerRecord>) -> Self {
        let mut machine = Self::new(sandbox.id);
        machine.sandbox = Sandbox::Known(Arc::new(sandbox));
        machine.slots = containers.into_iter().map(|record| (record.id, Slot::known(record))).collect();
        machine
    }

    /// Takes one input and gives what is to be done about it, in order.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::Request(request, waiter) => self.request(request, waiter),
            Input::Ran(result) => self.ran(result),
            Input::TornDown(network, result) => self.torn_down(*network, result),
            Input::Unmade(result) => self.unmade(result),
            Input::Created(id, result) => self.created(id, result),
            Input::Started(id, result) => self.started(id, result),
            Input::Deleted(id, result) => self.deleted(id, result),
            Input::Updated(id, resources, result, waiter) => self.updated(id, *resources, result, waiter),
            Input::CgroupKilled(id, result) => self.cgroup_killed(id, result),
            Input::AllKilled => self.all_killed(),
            Input::Timer(id, round) => self.timer(id, round),
            Input::Running(id, at) => self.runs(id, at),
            Input::Exited(id, exit, ack) => self.exited(id, exit, ack),
            Input::ShimLost(cause) => self.shim_lost(cause),
            Input::SaveFailed(id) => {
                self.unsaved.insert(id);
            }
        }
        self.advance();
        std::mem::take(&mut self.effects)
    }

    fn request(&mut self, request: Request, waiter: Waiter) {
        match request {
            Request::Run(config) => self.run(*config, waiter),
            Request::StopSandbox => self.stop_sandbox(waiter),
            Request::RemoveSandbox => self.remove_sandbox(waiter),
            Request::Create(draft) => self.create(draft, waiter),
            Request::Start(id) => self.start(id, waiter),
            Request::Stop(id, grace) => self.stop(id, grace, waiter),
            Request::Remove(id) => self.remove(id, waiter),
            Request::Update(id, resources) => self.update(id, *resources, waiter),
        }
    }

    /// The sandbox as lists and statuses show it; none while it is being made and after it is gone.
    #[must_use]
    pub fn sandbox(&self) -> Option<&Arc<SandboxRecord>> {
        match &self.sandbox {
            Sandbox::Known(record) => Some(record),
            _ => None,
        }
    }

    /// The containers as lists and statuses show them, by id.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<ContainerRecord>> {
        self.slots.values().filter_map(Slot::record)
    }

    /// True once nothing is left and the actor may end.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.sandbox, Sandbox::Gone)
    }

    /// True while a container is being stopped: its timers still count.
    #[must_use]
    pub fn is_stopping(&self, id: ContainerId) -> bool {
        matches!(self.slots.get(&id), Some(Slot::Known { op: Op::Stopping(_), .. }))
    }

    /// True while the shim is meant to be there: its end is a loss.
    #[must_use]
    pub fn expects_shim(&self) -> bool {
        self.sandbox().is_some_and(|record| record.is_ready()) && !self.tearing_down()
    }

    fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn answer(&mut self, waiter: Waiter, result: Result<Reply, Error>) {
        self.push(Effect::Answer(waiter, result));
    }

    fn answer_all(&mut self, waiters: Vec<Waiter>, result: &Result<Reply, Error>) {
        for waiter in waiters {
            self.answer(waiter, result.clone());
        }
    }

    /// Saves a container and then does what depends on it. One that is on its way out is not saved again: its row
    /// may be gone already, and must not come back.
    fn save(&mut self, id: ContainerId, then: Saved) {
        match self.slots.get(&id) {
            Some(Slot::Known { record, op }) if !matches!(op, Op::Removing(_)) => {
                let write = Write::Container(Arc::clone(record));
                self.unsaved.remove(&id);
                self.push(Effect::Save(vec![write], then));
            }
            _ => {
                for (waiter, answer) in then.answers {
                    self.answer(waiter, answer);
                }
                then.acks.into_iter().for_each(|ack| self.push(Effect::Ack(ack)));
            }
        }
    }

    /// Changes a container's record; nothing happens if there is none.
    fn change(&mut self, id: ContainerId, change: impl FnOnce(&mut ContainerRecord)) {
        if let Some(Slot::Known { record, .. }) = self.slots.get_mut(&id) {
            change(Arc::make_mut(record));
        }
    }

    fn op(&mut self, id: ContainerId) -> Option<&mut Op> {
        match self.slots.get_mut(&id) {
            Some(Slot::Known { op, .. }) => Some(op),
            _ => None,
        }
    }
}
