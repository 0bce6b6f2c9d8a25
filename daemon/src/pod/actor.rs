//! The task around a pod's machine: mail in, effects out. It never waits for anything but mail.

use super::effects;
use super::machine::{Ack, Input, Machine, Now, Reply, Request, Waiter};
use super::registry::Backlink;
use super::{Canceller, Error, Ground, PodView, Views};
use crate::events::{Report, intake};
use crate::supervisor::{Shim, reconnect};
use berth_core::{ContainerId, SandboxId, Timestamp};
use berth_proto::shim::ContainerState;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// What comes to an actor.
pub(crate) enum Mail {
    /// A caller's request.
    Ask(Request, oneshot::Sender<Result<Reply, Error>>),
    /// The end of an effect.
    Fact(Box<Input>),
    /// The sandbox has been made, with its shim.
    Ran(Box<Result<crate::sandbox::Made, crate::sandbox::NotMade>>),
    /// The shim tells something.
    Report(Report),
    /// A shim that did not answer at the start was found again, or is lost.
    Found(Result<(Shim, Vec<ContainerState>), String>),
    /// A save has ended.
    Saved(super::machine::Saved, Result<(), Error>, Vec<ContainerId>),
}

/// Where an actor sits.
#[derive(Clone)]
pub(crate) struct Seat {
    /// The pod.
    pub(crate) id: SandboxId,
    /// Its runtime handler.
    pub(crate) handler: String,
    /// What it stands on.
    pub(crate) ground: Arc<Ground>,
    /// Its mailbox, for the effects.
    pub(crate) mail: mpsc::Sender<Mail>,
    /// Where its views go.
    pub(crate) views: Views,
    /// Where it is forgotten.
    pub(crate) backlink: Backlink,
}

pub(crate) struct Actor {
    pub(crate) seat: Seat,
    pub(crate) machine: Machine,
    pub(crate) shim: Option<Shim>,
    pub(crate) run: Option<Canceller>,
    pub(crate) creates: HashMap<ContainerId, Canceller>,
    pub(crate) timers: HashMap<ContainerId, AbortHandle>,
    waiters: HashMap<Waiter, oneshot::Sender<Result<Reply, Error>>>,
    acks: HashMap<Ack, oneshot::Sender<()>>,
    next: u64,
    born: Instant,
}

/// Starts an actor. It ends when its pod is gone.
pub(crate) fn start(seat: Seat, machine: Machine, mut inbox: mpsc::Receiver<Mail>, shim: Option<Shim>) {
    let mut actor = Actor {
        seat,
        machine,
        shim: None,
        run: None,
        creates: HashMap::new(),
        timers: HashMap::new(),
        waiters: HashMap::new(),
        acks: HashMap::new(),
        next: 0,
        born: Instant::now(),
    };
    match shim {
        Some(shim) => actor.take_shim(shim),
        None if actor.machine.expects_shim() => actor.look_for_shim(),
        None => {}
    }
    actor.publish();
    tokio::spawn(async move {
        while let Some(mail) = inbox.recv().await {
            if actor.open(mail) {
                break;
            }
        }
    });
}

impl Actor {
    /// Deals with one piece of mail; true once the pod is gone.
    fn open(&mut self, mail: Mail) -> bool {
        let input = match mail {
            Mail::Ask(request, answer) => {
                let waiter = self.number();
                self.waiters.insert(waiter, answer);
                Input::Request(request, waiter)
            }
            Mail::Fact(input) => {
                if let Input::Created(id, _) = &*input {
                    self.creates.remove(id);
                }
                *input
            }
            Mail::Ran(result) => match *result {
                Ok(made) => Input::Ran(Ok(self.take_made(made))),
                Err(failed) => Input::Ran(Err((failed.error, failed.remains))),
            },
            Mail::Report(Report::Lost(cause)) => {
                if self.machine.expects_shim() {
                    tracing::error!(sandbox = %self.seat.id, cause, "a pod lost its shim");
                }
                self.shim = None;
                Input::ShimLost(cause)
            }
            Mail::Report(Report::Exited(id, exit, done)) => {
                let ack = self.number();
                self.acks.insert(ack, done);
                Input::Exited(id, exit, ack)
            }
            Mail::Found(Ok((shim, told))) => return self.found(shim, told),
            Mail::Found(Err(cause)) => Input::ShimLost(cause),
            Mail::Saved(then, result, containers) => return self.saved(then, &result, containers),
        };
        self.feed(input)
    }

    fn feed(&mut self, input: Input) -> bool {
        let now = Now { wall: Timestamp::now(), mono: self.born.elapsed() };
        let effects = self.machine.handle(now, input);
        let gone = self.machine.is_gone();
        if gone {
            // Before anybody is answered: whoever asks again begins anew.
            self.seat.backlink.forget(self.seat.id);
        }
        self.publish();
        let machine = &self.machine;
        self.timers.retain(|id, timer| {
            machine.is_stopping(*id) || {
                timer.abort();
                false
            }
        });
        for effect in effects {
            effects::perform(self, effect);
        }
        gone
    }

    fn saved(
        &mut self,
        then: super::machine::Saved,
        result: &Result<(), Error>,
        containers: Vec<ContainerId>,
    ) -> bool {
        for (waiter, answer) in then.answers {
            self.answer(waiter, answer);
        }
        match result {
            Ok(()) => {
                for ack in then.acks {
                    self.ack(ack);
                }
                false
            }
            Err(error) => {
                tracing::error!(sandbox = %self.seat.id, %error, "a record could not be saved; what it tells holds in memory");
                for ack in then.acks {
                    // Dropped: the shim is asked to tell it again.
                    self.acks.remove(&ack);
                }
                containers.into_iter().any(|id| self.feed(Input::SaveFailed(id)))
            }
        }
    }

    /// Answers somebody, if they still wait.
    pub(crate) fn answer(&mut self, waiter: Waiter, result: Result<Reply, Error>) {
        if let Some(answer) = self.waiters.remove(&waiter) {
            // A caller who has gone needs no answer.
            let _ = answer.send(result);
        }
    }

    /// Acknowledges a fact.
    pub(crate) fn ack(&mut self, ack: Ack) {
        if let Some(done) = self.acks.remove(&ack) {
            let _ = done.send(());
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn publish(&self) {
        self.seat.views.publish(PodView::of(&self.machine, self.shim.as_ref()));
    }

    fn take_made(&mut self, made: crate::sandbox::Made) -> Box<crate::sandbox::SandboxRecord> {
        self.take_shim(made.shim);
        Box::new(made.record)
    }

    /// The shim is back: what it did in the meantime is told, its exits come as events.
    fn found(&mut self, shim: Shim, told: Vec<ContainerState>) -> bool {
        tracing::info!(sandbox = %self.seat.id, pid = shim.pid(), "the shim answers again");
        self.take_shim(shim);
        self.publish();
        let runs = told.into_iter().filter(|state| state.started_at > 0);
        let runs =
            runs.filter_map(|state| Some((ContainerId::parse(&state.id).ok()?, Timestamp(state.started_at))));
        runs.collect::<Vec<_>>().into_iter().any(|(id, at)| self.feed(Input::Running(id, at)))
    }

    /// A pod whose shim should be there, but did not answer when the daemon started.
    fn look_for_shim(&self) {
        let (seat, pid) = (self.seat.clone(), self.machine.sandbox().and_then(|record| record.shim_pid()));
        let paths = seat.ground.paths(seat.id);
        tokio::spawn(async move {
            tokio::select! {
                found = reconnect(&paths, seat.id, pid) => drop(seat.mail.send(Mail::Found(found)).await),
                () = seat.mail.closed() => {}
            }
        });
    }

    fn take_shim(&mut self, shim: Shim) {
        self.shim = Some(shim.clone());
        let (reports, mut inbox) = mpsc::channel(REPORTS);
        tokio::spawn(intake(shim, reports));
        let mail = self.seat.mail.clone();
        tokio::spawn(async move {
            while let Some(report) = inbox.recv().await {
                if mail.send(Mail::Report(report)).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Reports of a shim that may wait.
const REPORTS: usize = 64;
