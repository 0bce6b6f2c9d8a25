//! CreateContainer: one operation per (name, attempt) within the pod.

use super::{Draft, Effect, Machine, Op, Reply, Saved, Slot, Waiter};
use crate::container::{ContainerRecord, ContainerState};
use crate::pod::Error;
use berth_core::ContainerId;
use std::sync::Arc;

impl Machine {
    pub(super) fn create(&mut self, draft: Draft, waiter: Waiter) {
        let same_name = self.slots.iter_mut().find(|(_, slot)| {
            let config = slot.config();
            config.name == draft.config.name && config.attempt == draft.config.attempt
        });
        match same_name {
            Some((_, Slot::Creating { config, waiters, cancelled: false, .. }))
                if *config == draft.config =>
            {
                waiters.push(waiter);
            }
            Some((id, Slot::Known { record, op: Op::Idle }))
                if matches!(record.state, ContainerState::Created { .. })
                    && record.config == *draft.config =>
            {
                let id = *id;
                self.answer(waiter, Ok(Reply::Container(id)));
            }
            Some((id, slot)) => {
                let refusal = in_the_way(*id, slot);
                self.answer(waiter, Err(refusal));
            }
            None => self.begin_create(draft, waiter),
        }
    }

    fn begin_create(&mut self, draft: Draft, waiter: Waiter) {
        let sandbox = match self.sandbox() {
            Some(record) if record.is_ready() && self.ending.is_none() && self.lost.is_none() => {
                Arc::clone(record)
            }
            _ => return self.answer(waiter, Err(self.not_ready("CreateContainer"))),
        };
        let (config, since) = (Arc::clone(&draft.config), draft.created_at);
        let slot = Slot::Creating {
            config,
            since,
            waiters: vec![waiter],
            ending: Vec::new(),
            cancelled: false,
            early: None,
        };
        self.slots.insert(draft.id, slot);
        self.push(Effect::Create(draft, sandbox));
    }

    pub(super) fn not_ready(&self, act: &'static str) -> Error {
        let state = match self.sandbox() {
            Some(_) if self.ending.is_some() => "being stopped".to_owned(),
            Some(record) if !record.is_ready() => record.state_word().to_owned(),
            Some(_) => "losing its shim".to_owned(),
            None => "not there".to_owned(),
        };
        Error::State { act, object: format!("sandbox {}", self.id), state }
    }

    /// Gives up a creation that goes on; whoever asked for it is told once it is undone.
    pub(super) fn cancel_create(&mut self, id: ContainerId) {
        if let Some(Slot::Creating { cancelled, .. }) = self.slots.get_mut(&id)
            && !std::mem::replace(cancelled, true)
        {
            self.push(Effect::CancelCreate(id));
        }
    }

    pub(super) fn created(&mut self, id: ContainerId, result: Result<Box<ContainerRecord>, Error>) {
        let Some(Slot::Creating { waiters, ending, cancelled, early, .. }) = self.slots.remove(&id) else {
            return;
        };
        match result {
            Err(error) => {
                let error = if cancelled { Error::Cancelled("CreateContainer") } else { error };
                self.answer_all(waiters, &Err(error));
                self.answer_all(ending, &Ok(Reply::Done));
                early.into_iter().for_each(|(_, ack)| self.push(Effect::Ack(ack)));
            }
            Ok(record) => {
                self.slots.insert(id, Slot::known(*record));
                let unwelcome =
                    self.lost.is_some() || self.sandbox().is_none_or(|sandbox| !sandbox.is_ready());
                if cancelled || unwelcome {
                    self.answer_all(waiters, &Err(Error::Cancelled("CreateContainer")));
                    early.into_iter().for_each(|(_, ack)| self.push(Effect::Ack(ack)));
                    self.begin_delete(id, ending);
                } else {
                    self.created_well(id, waiters, early);
                }
            }
        }
    }

    fn created_well(
        &mut self,
        id: ContainerId,
        waiters: Vec<Waiter>,
        early: Option<(super::Exit, super::Ack)>,
    ) {
        match early {
            None => self.answer_all(waiters, &Ok(Reply::Container(id))),
            Some((exit, ack)) => {
                self.note_exit(id, &exit);
                self.save(id, Saved::answers(waiters, &Ok(Reply::Container(id))).ack([ack]));
            }
        }
    }
}

fn in_the_way(id: ContainerId, slot: &Slot) -> Error {
    let config = slot.config();
    let what = format!("container {} (attempt {})", config.name, config.attempt);
    match slot {
        Slot::Creating { since, .. } => Error::exists(what, id.as_str(), "being created", *since),
        Slot::Known { record, .. } => {
            Error::exists(what, id.as_str(), record.state_word(), record.created_at)
        }
    }
}
