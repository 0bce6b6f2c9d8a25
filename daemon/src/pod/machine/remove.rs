//! RemoveContainer: forces the end of what still runs, then takes away what is left.

use super::{Effect, Machine, Op, Reply, Slot, Waiter};
use crate::pod::Error;
use berth_core::ContainerId;
use std::time::Duration;

impl Machine {
    pub(super) fn remove(&mut self, id: ContainerId, waiter: Waiter) {
        match self.slots.get_mut(&id) {
            None => self.answer(waiter, Ok(Reply::Done)),
            Some(Slot::Creating { ending, .. }) => {
                ending.push(waiter);
                self.cancel_create(id);
            }
            Some(Slot::Known { .. }) => self.begin_remove(id, vec![waiter]),
        }
    }

    /// Removes a container that is there, or joins its removal.
    pub(super) fn begin_remove(&mut self, id: ContainerId, waiters: Vec<Waiter>) {
        match self.slots.get_mut(&id) {
            Some(Slot::Known { op: Op::Removing(all), .. }) => all.extend(waiters),
            Some(slot) if slot.is_settled() => self.begin_delete(id, waiters),
            Some(Slot::Known { .. }) => self.begin_stop(id, Duration::ZERO, Vec::new(), waiters),
            Some(Slot::Creating { .. }) => self.cancel_create(id),
            None => self.answer_all(waiters, &Ok(Reply::Done)),
        }
    }

    /// Takes away a container whose processes are gone, or whose creation was given up.
    pub(super) fn begin_delete(&mut self, id: ContainerId, waiters: Vec<Waiter>) {
        self.set_op(id, Op::Removing(waiters));
        if let Some(record) = self.slots.get(&id).and_then(Slot::record).cloned() {
            self.push(Effect::Delete(record));
        }
    }

    pub(super) fn deleted(&mut self, id: ContainerId, result: Result<(), Error>) {
        let Some(op @ Op::Removing(_)) = self.op(id) else { return };
        let Op::Removing(waiters) = std::mem::replace(op, Op::Idle) else { return };
        match result {
            Ok(()) => {
                self.slots.remove(&id);
                self.unsaved.remove(&id);
                self.answer_all(waiters, &Ok(Reply::Done));
            }
            Err(error) => {
                self.answer_all(waiters, &Err(error.clone()));
                self.give_up_ending(&error);
            }
        }
    }
}
