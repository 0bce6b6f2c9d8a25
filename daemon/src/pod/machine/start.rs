//! StartContainer.

use super::slot::Starting;
use super::stop::SIGKILL;
use super::{Effect, Machine, Op, Reply, Saved, Slot, StartFailure, Waiter};
use crate::container::{ContainerRecord, ContainerState, Exited, Reason, START_ERROR_CODE};
use crate::pod::Error;
use berth_core::{ContainerId, Timestamp};

impl Machine {
    pub(super) fn start(&mut self, id: ContainerId, waiter: Waiter) {
        let ready = self.sandbox().is_some_and(|sandbox| sandbox.is_ready()) && self.ending.is_none();
        match self.slots.get_mut(&id) {
            None => self.answer(waiter, Err(Error::NoContainer(id.to_string()))),
            Some(Slot::Known { op: Op::Starting(starting), .. }) if starting.stop.is_none() => {
                starting.waiters.push(waiter);
            }
            Some(Slot::Known { record, op: op @ Op::Idle })
                if ready && matches!(record.state, ContainerState::Created { .. }) =>
            {
                *op = Op::Starting(Starting { waiters: vec![waiter], ..Starting::default() });
                self.push(Effect::Start(id));
            }
            Some(Slot::Known { record, op: Op::Idle })
                if matches!(record.state, ContainerState::Created { .. }) =>
            {
                let refusal = self.not_ready("StartContainer");
                self.answer(waiter, Err(refusal));
            }
            Some(slot) => {
                let refusal = refuse(id, slot);
                self.answer(waiter, Err(refusal));
            }
        }
    }

    pub(super) fn started(&mut self, id: ContainerId, result: Result<Timestamp, StartFailure>) {
        let Some(op @ Op::Starting(_)) = self.op(id) else { return };
        let Op::Starting(starting) = std::mem::replace(op, Op::Idle) else { return };
        let early_ack = starting.early.as_ref().map(|(_, ack)| *ack);
        let answer = match result {
            Ok(at) => {
                self.change(id, |record| record.state = running(record, at));
                if let Some((exit, _)) = &starting.early {
                    self.note_exit(id, exit);
                }
                Ok(Reply::Done)
            }
            Err(StartFailure::Refused(error)) => {
                let at = self.now.wall;
                self.change(id, |record| record.state = start_error(record, at, &error));
                self.kill_remains(id);
                Err(error)
            }
            Err(StartFailure::NoAnswer(error)) => {
                match &starting.early {
                    Some((exit, _)) => self.note_exit(id, exit),
                    None => self.kill_remains(id),
                }
                Err(error)
            }
        };
        self.save(id, Saved::answers(starting.waiters, &answer).ack(early_ack));
        self.settle_if_lost(id);
        self.go_on_after_start(id, starting.stop, starting.remove);
    }

    /// Whoever asked was told that it did not start: then nothing of it may run. Its end is told like any other.
    fn kill_remains(&mut self, id: ContainerId) {
        self.push(Effect::Signal { id, signal: SIGKILL, all: true });
    }

    /// A shim that was found again tells what it did while nobody listened.
    pub(super) fn runs(&mut self, id: ContainerId, at: Timestamp) {
        let created = |record: &ContainerRecord| matches!(record.state, ContainerState::Created { .. });
        match self.slots.get(&id) {
            Some(Slot::Known { record, op: Op::Idle | Op::Stopping(_) }) if created(record) => {}
            _ => return,
        }
        self.change(id, |record| record.state = running(record, at));
        self.save(id, Saved::default());
    }

    fn go_on_after_start(
        &mut self,
        id: ContainerId,
        stop: Option<(std::time::Duration, Vec<Waiter>)>,
        remove: Vec<Waiter>,
    ) {
        if stop.is_none() && remove.is_empty() {
            return;
        }
        let (grace, waiters) = stop.unwrap_or_default();
        self.begin_stop(id, grace, waiters, remove);
    }
}

fn refuse(id: ContainerId, slot: &Slot) -> Error {
    let state = match slot {
        Slot::Creating { .. } => "being created",
        Slot::Known { op: Op::Stopping(_), .. } => "being stopped",
        Slot::Known { op: Op::Removing(_), .. } => "being removed",
        Slot::Known { record, .. } => record.state_word(),
    };
    Error::State { act: "StartContainer", object: format!("container {id}"), state: state.to_owned() }
}

fn running(record: &ContainerRecord, at: Timestamp) -> ContainerState {
    let pid = match record.state {
        ContainerState::Created { pid } => pid,
        _ => 0,
    };
    ContainerState::Running { pid, started_at: at.at_least(record.created_at) }
}

fn start_error(record: &ContainerRecord, at: Timestamp, error: &Error) -> ContainerState {
    ContainerState::Exited(Exited {
        started_at: Timestamp::NEVER,
        finished_at: at.at_least(record.created_at),
        code: START_ERROR_CODE,
        reason: Reason::StartError,
        message: error.to_string(),
    })
}
