//! StopContainer: the stop signal, the grace period, SIGKILL, and at last the cgroup.
//!
//! Two stops share one operation and the shorter deadline wins. A process that outlives even the cgroup's end
//! (it sleeps in the kernel) is told to whoever waits; it still ends by itself one day.

use super::slot::{Phase, Stopping};
use super::{Effect, Exit, Machine, Op, Reply, Saved, Slot, Waiter};
use crate::container::{ContainerState, Exited, Reason};
use crate::pod::Error;
use berth_core::{ContainerId, Timestamp};
use std::time::Duration;

/// How long the shim has to tell the end of what it was told to kill.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
pub(super) const SIGKILL: u32 = 9;
/// Grace periods beyond this (a day) are this.
const GRACE_MAX: Duration = Duration::from_secs(86_400);

impl Machine {
    pub(super) fn stop(&mut self, id: ContainerId, grace: Duration, waiter: Waiter) {
        match self.slots.get_mut(&id) {
            None => self.answer(waiter, Ok(Reply::Done)),
            Some(Slot::Creating { ending, .. }) => {
                ending.push(waiter);
                self.cancel_create(id);
            }
            Some(Slot::Known { .. }) => self.begin_stop(id, grace.min(GRACE_MAX), vec![waiter], Vec::new()),
        }
    }

    /// Stops a container that is there, or joins its stop; `remove` wants it removed afterwards.
    pub(super) fn begin_stop(
        &mut self,
        id: ContainerId,
        grace: Duration,
        waiters: Vec<Waiter>,
        remove: Vec<Waiter>,
    ) {
        let deadline = self.now.mono + grace;
        match self.op(id) {
            Some(Op::Starting(starting)) => {
                let (least, all) = starting.stop.get_or_insert((grace, Vec::new()));
                *least = (*least).min(grace);
                all.extend(waiters);
                starting.remove.extend(remove);
            }
            Some(Op::Stopping(stopping)) => {
                stopping.waiters.extend(waiters);
                stopping.remove.extend(remove);
                let sooner = stopping.phase == Phase::Asked && deadline < stopping.deadline;
                if sooner {
                    self.rearm(id, grace);
                }
            }
            Some(Op::Removing(_)) => self.answer_all(waiters, &Ok(Reply::Done)),
            Some(Op::Idle) => self.stop_idle(id, grace, waiters, remove),
            None => {}
        }
    }

    fn stop_idle(&mut self, id: ContainerId, grace: Duration, waiters: Vec<Waiter>, remove: Vec<Waiter>) {
        let Some(record) = self.slots.get(&id).and_then(Slot::record).cloned() else { return };
        let (phase, deadline) = (Phase::Asked, self.now.mono + grace);
        let stopping = Stopping { waiters, remove, phase, deadline, round: 0 };
        match record.state {
            ContainerState::Exited(_) | ContainerState::Creating => {
                self.answer_all(stopping.waiters, &Ok(Reply::Done));
                if !stopping.remove.is_empty() {
                    self.begin_delete(id, stopping.remove);
                }
                return;
            }
            _ => self.set_op(id, Op::Stopping(stopping)),
        }
        match record.state {
            ContainerState::Running { .. } if !grace.is_zero() && self.lost.is_none() => {
                self.push(Effect::Signal { id, signal: record.stop_signal, all: false });
                self.rearm(id, grace);
            }
            ContainerState::Unknown { .. } => self.escalate(id, Phase::Forced),
            _ => self.escalate(id, Phase::Killed),
        }
    }

    pub(super) fn set_op(&mut self, id: ContainerId, new: Op) {
        if let Some(op) = self.op(id) {
            *op = new;
        }
    }

    /// Begins a new round whose timer runs out after `wait`; at once if there is nothing to wait for.
    fn rearm(&mut self, id: ContainerId, wait: Duration) {
        let now = self.now.mono;
        let Some(Op::Stopping(stopping)) = self.op(id) else { return };
        stopping.deadline = now + wait;
        stopping.round += 1;
        let round = stopping.round;
        if wait.is_zero() {
            self.timer(id, round);
        } else {
            self.push(Effect::Timer(id, round, wait));
        }
    }

    pub(super) fn timer(&mut self, id: ContainerId, round: u32) {
        let Some(Op::Stopping(stopping)) = self.op(id) else { return };
        if stopping.round != round {
            return;
        }
        match stopping.phase {
            Phase::Asked => self.escalate(id, Phase::Killed),
            Phase::Killed => self.escalate(id, Phase::Forced),
            Phase::Forced => {}
        }
    }

    fn escalate(&mut self, id: ContainerId, to: Phase) {
        if let Some(Op::Stopping(stopping)) = self.op(id) {
            stopping.phase = to;
        }
        match to {
            Phase::Asked => {}
            Phase::Killed => {
                self.push(Effect::Signal { id, signal: SIGKILL, all: true });
                self.rearm(id, KILL_PATIENCE);
            }
            Phase::Forced => {
                if let Some(record) = self.slots.get(&id).and_then(Slot::record).cloned() {
                    self.push(Effect::KillCgroup(record));
                }
            }
        }
    }

    pub(super) fn cgroup_killed(&mut self, id: ContainerId, result: Result<(), Error>) {
        let Some(op @ Op::Stopping(_)) = self.op(id) else { return };
        match result {
            Ok(()) => {
                let cause = "killed with its cgroup; its shim told no exit".to_owned();
                let exit = Exit { code: 137, at: self.now.wall, oom: false, cause };
                self.end(id, &exit, None);
            }
            Err(error) => {
                let Op::Stopping(stopping) = std::mem::replace(op, Op::Idle) else { return };
                let all = stopping.waiters.into_iter().chain(stopping.remove).collect();
                self.answer_all(all, &Err(error.clone()));
                self.give_up_ending(&error);
            }
        }
    }

    /// The container has ended: notes it, saves it, and only then answers whoever waited for it.
    pub(super) fn end(&mut self, id: ContainerId, exit: &Exit, ack: Option<super::Ack>) {
        self.note_exit(id, exit);
        let stopping = match self.op(id) {
            Some(op @ Op::Stopping(_)) => std::mem::replace(op, Op::Idle),
            _ => Op::Idle,
        };
        let Op::Stopping(stopping) = stopping else { return self.save(id, Saved::default().ack(ack)) };
        self.save(id, Saved::answers(stopping.waiters, &Ok(Reply::Done)).ack(ack));
        if !stopping.remove.is_empty() {
            self.begin_delete(id, stopping.remove);
        }
    }

    /// Puts an end into the record. Later ends of the same container change nothing.
    pub(super) fn note_exit(&mut self, id: ContainerId, exit: &Exit) {
        self.change(id, |record| {
            let started_at = match record.state {
                ContainerState::Exited(_) => return,
                ContainerState::Running { started_at, .. } => started_at,
                _ => Timestamp::NEVER,
            };
            let floor = started_at.at_least(record.created_at);
            record.state = ContainerState::Exited(Exited {
                started_at,
                finished_at: exit.at.at_least(floor),
                code: exit.code,
                reason: reason(exit),
                message: exit.cause.clone(),
            });
        });
    }
}

fn reason(exit: &Exit) -> Reason {
    match exit {
        Exit { oom: true, .. } => Reason::OomKilled,
        Exit { cause, .. } if cause == Reason::ShimLost.as_str() => Reason::ShimLost,
        Exit { cause, .. } if cause == Reason::NodeRestart.as_str() => Reason::NodeRestart,
        Exit { code: 0, .. } => Reason::Completed,
        Exit { .. } => Reason::Error,
    }
}
