//! A dead or deaf shim is a lost pod: nothing can adopt its containers, so they are killed and told so.

use super::{Effect, Exit, Machine, Op, Sandbox, Saved, Slot, Write};
use crate::container::{ContainerState, Reason};
use crate::sandbox::SandboxState;
use berth_core::ContainerId;
use std::sync::Arc;

impl Machine {
    pub(super) fn shim_lost(&mut self, cause: String) {
        if !self.expects_shim() || self.lost.is_some() {
            return;
        }
        self.lost = Some(cause);
        let alive = self.slots.values().filter_map(Slot::record);
        let alive = alive.filter(|record| !matches!(record.state, ContainerState::Exited(_)));
        let alive = alive.cloned().collect();
        self.push(Effect::KillAll(alive));
    }

    pub(super) fn all_killed(&mut self) {
        let Some(cause) = self.lost.take() else { return };
        if let Sandbox::Known(record) = &mut self.sandbox {
            let record = Arc::make_mut(record);
            record.state = SandboxState::NotReady { at: self.now.wall, cause: Some(cause) };
            let write = Write::Sandbox(Arc::new(record.clone()));
            self.push(Effect::Save(vec![write], Saved::default()));
        }
        let ids: Vec<ContainerId> = self.slots.keys().copied().collect();
        for id in ids {
            self.settle_if_lost(id);
        }
    }

    /// In a sandbox whose shim is gone, nothing can still run. A start that goes on fails by itself first.
    pub(super) fn settle_if_lost(&mut self, id: ContainerId) {
        if self.lost.is_some() || self.sandbox().is_none_or(|sandbox| sandbox.is_ready()) {
            return;
        }
        match self.slots.get(&id) {
            Some(Slot::Known { record, op: Op::Idle | Op::Stopping(_) })
                if !matches!(record.state, ContainerState::Exited(_)) =>
            {
                let cause = Reason::ShimLost.as_str().to_owned();
                let exit = Exit { code: 137, at: self.now.wall, oom: false, cause };
                self.end(id, &exit, None);
            }
            _ => {}
        }
    }
}
