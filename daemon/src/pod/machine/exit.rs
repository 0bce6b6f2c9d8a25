//! Facts from the shim: a container's process ended.

use super::{Ack, Effect, Exit, Machine, Op, Saved, Slot};
use crate::container::ContainerState;
use berth_core::ContainerId;

impl Machine {
    pub(super) fn exited(&mut self, id: ContainerId, exit: Exit, ack: Ack) {
        match self.slots.get_mut(&id) {
            None => self.push(Effect::Ack(ack)),
            Some(
                Slot::Creating { early, .. }
                | Slot::Known { op: Op::Starting(super::slot::Starting { early, .. }), .. },
            ) => {
                let before = early.replace((exit, ack));
                before.into_iter().for_each(|(_, ack)| self.push(Effect::Ack(ack)));
            }
            Some(Slot::Known { record, .. }) => {
                let known = matches!(record.state, ContainerState::Exited(_));
                match known {
                    true if self.unsaved.contains(&id) => self.save(id, Saved::default().ack([ack])),
                    true => self.push(Effect::Ack(ack)),
                    false => self.end(id, &exit, Some(ack)),
                }
            }
        }
    }
}
