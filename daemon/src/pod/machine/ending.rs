//! StopPodSandbox and RemovePodSandbox: stages that follow each other as containers and effects settle.
//!
//! ```text
//!   Containers (all ended) ──► Teardown (network, shim) ──► NotReady saved
//!        └─ and for a removal ──► Removing (each container) ──► Unmaking ──► gone
//! ```

use super::{Effect, Machine, Reply, Sandbox, Saved, Slot, Waiter, Write};
use crate::pod::Error;
use crate::sandbox::{SandboxNetwork, SandboxRecord, SandboxState};
use berth_core::ContainerId;
use std::sync::Arc;
use std::time::Duration;

/// A sandbox that is being stopped, and perhaps removed.
#[derive(Debug)]
pub(super) struct Ending {
    stage: Stage,
    stop: Vec<Waiter>,
    remove: Vec<Waiter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Containers,
    Teardown,
    Removing,
    Unmaking,
}

impl Machine {
    pub(super) fn tearing_down(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.stage != Stage::Containers)
    }

    pub(super) fn stop_sandbox(&mut self, waiter: Waiter) {
        match (&mut self.sandbox, &mut self.ending) {
            (Sandbox::Gone, _) => self.answer(waiter, Ok(Reply::Done)),
            (Sandbox::Creating(creating), _) => {
                creating.ending.push(waiter);
                self.push(Effect::CancelRun);
            }
            (Sandbox::Known(_), Some(ending))
                if matches!(ending.stage, Stage::Containers | Stage::Teardown) =>
            {
                ending.stop.push(waiter);
            }
            (Sandbox::Known(_), Some(_)) => self.answer(waiter, Ok(Reply::Done)),
            (Sandbox::Known(record), None) if is_over(record) => self.answer(waiter, Ok(Reply::Done)),
            (Sandbox::Known(_), None) => self.begin_ending(vec![waiter], Vec::new()),
        }
    }

    pub(super) fn remove_sandbox(&mut self, waiter: Waiter) {
        match (&mut self.sandbox, &mut self.ending) {
            (Sandbox::Gone, _) => self.answer(waiter, Ok(Reply::Done)),
            (Sandbox::Creating(creating), _) => {
                creating.ending.push(waiter);
                self.push(Effect::CancelRun);
            }
            (Sandbox::Known(_), Some(ending)) => ending.remove.push(waiter),
            (Sandbox::Known(_), None) => self.begin_ending(Vec::new(), vec![waiter]),
        }
    }

    fn begin_ending(&mut self, stop: Vec<Waiter>, remove: Vec<Waiter>) {
        self.ending = Some(Ending { stage: Stage::Containers, stop, remove });
        for id in self.ids() {
            self.end_container(id);
        }
    }

    fn end_container(&mut self, id: ContainerId) {
        if matches!(self.slots.get(&id), Some(Slot::Creating { .. })) {
            self.cancel_create(id);
        } else {
            self.begin_stop(id, Duration::ZERO, Vec::new(), Vec::new());
        }
    }

    fn ids(&self) -> Vec<ContainerId> {
        self.slots.keys().copied().collect()
    }

    /// Goes on with an ending whose stage is done. Called after every input.
    pub(super) fn advance(&mut self) {
        let Some(stage) = self.ending.as_ref().map(|ending| ending.stage) else { return };
        match stage {
            Stage::Containers if self.slots.values().all(Slot::is_settled) && self.lost.is_none() => {
                self.begin_teardown();
            }
            Stage::Removing if self.slots.is_empty() => self.begin_unmake(),
            _ => {}
        }
    }

    fn begin_teardown(&mut self) {
        let Sandbox::Known(record) = &self.sandbox else { return };
        let record = Arc::clone(record);
        self.set_stage(Stage::Teardown);
        if is_over(&record) {
            self.torn_down(record.network.clone(), Ok(()));
        } else {
            self.push(Effect::Teardown(record));
        }
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(ending) = &mut self.ending {
            ending.stage = stage;
        }
    }

    pub(super) fn torn_down(&mut self, network: SandboxNetwork, result: Result<(), Error>) {
        let Sandbox::Known(record) = &mut self.sandbox else { return };
        let record = Arc::make_mut(record);
        record.network = network;
        if record.is_ready() {
            record.state = SandboxState::NotReady { at: self.now.wall, cause: None };
        }
        let write = Write::Sandbox(Arc::new(record.clone()));
        let stop = self.ending.as_mut().map(|ending| std::mem::take(&mut ending.stop)).unwrap_or_default();
        let answer = result.clone().map(|()| Reply::Done);
        self.push(Effect::Save(vec![write], Saved::answers(stop, &answer)));
        match result {
            Ok(()) => self.after_teardown(),
            Err(error) => self.end_badly(&error),
        }
    }

    fn after_teardown(&mut self) {
        if self.ending.as_ref().is_none_or(|ending| ending.remove.is_empty()) {
            self.ending = None;
            return;
        }
        self.set_stage(Stage::Removing);
        for id in self.ids() {
            self.begin_remove(id, Vec::new());
        }
        self.advance();
    }

    /// A container could not be stopped or removed: whoever waits for the sandbox is told, and may try again. While
    /// effects on the sandbox itself go on, their end decides.
    pub(super) fn give_up_ending(&mut self, error: &Error) {
        let own = |ending: &Ending| matches!(ending.stage, Stage::Teardown | Stage::Unmaking);
        if !self.ending.as_ref().is_some_and(own) {
            self.end_badly(error);
        }
    }

    fn end_badly(&mut self, error: &Error) {
        if let Some(ending) = self.ending.take() {
            self.answer_all(ending.stop, &Err(error.clone()));
            self.answer_all(ending.remove, &Err(error.clone()));
        }
    }

    fn begin_unmake(&mut self) {
        let Sandbox::Known(record) = &self.sandbox else { return };
        let record = Arc::clone(record);
        self.set_stage(Stage::Unmaking);
        self.push(Effect::Unmake(record));
    }

    pub(super) fn unmade(&mut self, result: Result<(), Error>) {
        match result {
            Ok(()) => {
                self.sandbox = Sandbox::Gone;
                if let Some(ending) = self.ending.take() {
                    self.answer_all(ending.stop, &Ok(Reply::Done));
                    self.answer_all(ending.remove, &Ok(Reply::Done));
                }
            }
            Err(error) => self.end_badly(&error),
        }
    }
}

/// Nothing of it lives: not ready, and its network is given back.
fn is_over(record: &SandboxRecord) -> bool {
    let detached = !matches!(record.network, SandboxNetwork::Own { .. });
    matches!(record.state, SandboxState::NotReady { .. }) && detached
}
