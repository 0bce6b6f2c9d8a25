//! RunPodSandbox: one operation per key, joined by whoever asks for the same.

use super::{Creating, Effect, Machine, Reply, Sandbox, Waiter};
use crate::pod::Error;
use crate::sandbox::{SandboxConfig, SandboxRecord};
use std::sync::Arc;

impl Machine {
    pub(super) fn run(&mut self, config: SandboxConfig, waiter: Waiter) {
        match &mut self.sandbox {
            Sandbox::Gone => self.begin_run(config, waiter),
            Sandbox::Creating(creating) if creating.config == config && creating.ending.is_empty() => {
                creating.waiters.push(waiter);
            }
            Sandbox::Creating(creating) => {
                let since = creating.since;
                let refusal = self.in_the_way(&config, "being created", since);
                self.answer(waiter, Err(refusal));
            }
            Sandbox::Known(record) => {
                let same = record.is_ready() && record.config == config && self.ending.is_none();
                let (state, since) = (record.state_word(), record.created_at);
                let answer = if same {
                    Ok(Reply::Sandbox(self.id))
                } else {
                    Err(self.in_the_way(&config, state, since))
                };
                self.answer(waiter, answer);
            }
        }
    }

    fn begin_run(&mut self, config: SandboxConfig, waiter: Waiter) {
        let since = self.now.wall;
        self.push(Effect::Run(Box::new(config.clone()), since));
        let (waiters, ending) = (vec![waiter], Vec::new());
        self.sandbox = Sandbox::Creating(Box::new(Creating { config, since, waiters, ending }));
    }

    fn in_the_way(&self, config: &SandboxConfig, state: &'static str, since: berth_core::Timestamp) -> Error {
        let what = format!("sandbox {}/{} (attempt {})", config.namespace, config.name, config.attempt);
        Error::exists(what, self.id.as_str(), state, since)
    }

    pub(super) fn ran(&mut self, result: Result<Box<SandboxRecord>, (Error, Option<Box<SandboxRecord>>)>) {
        let Sandbox::Creating(creating) = std::mem::replace(&mut self.sandbox, Sandbox::Gone) else { return };
        match result {
            Ok(record) => {
                let id = record.id;
                self.sandbox = Sandbox::Known(Arc::new(*record));
                self.ran_well(creating, id);
            }
            Err((error, remains)) => {
                self.answer_all(creating.waiters, &Err(error));
                self.sandbox = remains.map_or(Sandbox::Gone, |record| Sandbox::Known(Arc::new(*record)));
                for waiter in creating.ending {
                    self.remove_sandbox(waiter);
                }
            }
        }
    }

    fn ran_well(&mut self, creating: Box<Creating>, id: berth_core::SandboxId) {
        if creating.ending.is_empty() {
            self.answer_all(creating.waiters, &Ok(Reply::Sandbox(id)));
            return;
        }
        self.answer_all(creating.waiters, &Err(Error::Cancelled("RunPodSandbox")));
        for waiter in creating.ending {
            self.remove_sandbox(waiter);
        }
    }
}
