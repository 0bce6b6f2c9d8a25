//! UpdateContainerResources: the record changes only once the kernel has taken the new limits.

use super::{Effect, Machine, Op, Reply, Saved, Slot, Waiter};
use crate::container::ContainerState;
use crate::pod::Error;
use crate::sandbox::Resources;
use berth_core::ContainerId;
use std::collections::VecDeque;
use std::sync::Arc;

impl Machine {
    pub(super) fn update(&mut self, id: ContainerId, resources: Resources, waiter: Waiter) {
        match self.slots.get(&id) {
            None => self.answer(waiter, Err(Error::NoContainer(id.to_string()))),
            Some(Slot::Known { record, op: Op::Idle | Op::Starting(_) })
                if matches!(
                    record.state,
                    ContainerState::Created { .. } | ContainerState::Running { .. }
                ) =>
            {
                let record = Arc::clone(record);
                match self.updates.get_mut(&id) {
                    Some(waiting) => waiting.push_back((resources, waiter)),
                    None => {
                        self.updates.insert(id, VecDeque::new());
                        self.push(Effect::Update(record, Box::new(resources), waiter));
                    }
                }
            }
            Some(slot) => {
                let state = slot.record().map_or("being created", |record| record.state_word());
                let object = format!("container {id}");
                let refusal =
                    Error::State { act: "UpdateContainerResources", object, state: state.to_owned() };
                self.answer(waiter, Err(refusal));
            }
        }
    }

    pub(super) fn updated(
        &mut self,
        id: ContainerId,
        resources: Resources,
        result: Result<(), Error>,
        waiter: Waiter,
    ) {
        match result {
            Ok(()) if self.slots.contains_key(&id) => {
                self.change(id, |record| {
                    record.config.resources = record.config.resources.merged(&resources)
                });
                self.save(id, Saved::answers(vec![waiter], &Ok(Reply::Done)));
            }
            Ok(()) => self.answer(waiter, Err(Error::NoContainer(id.to_string()))),
            Err(error) => self.answer(waiter, Err(error)),
        }
        // One after the other: what is recorded last is what was applied last.
        for (resources, waiter) in self.updates.remove(&id).unwrap_or_default() {
            self.update(id, resources, waiter);
        }
    }
}
