//! Effects become tasks; the end of a task is mail. A task that panics ends nothing but itself.

use super::actor::{Actor, Mail, Seat};
use super::machine::{Effect, Input, Saved, StartFailure, Waiter, Write};
use super::{Canceller, Error, Row};
use crate::container::ContainerRecord;
use crate::supervisor::Shim;
use crate::{container, sandbox};
use berth_core::{Classified, ContainerId};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Performs one effect.
pub(crate) fn perform(actor: &mut Actor, effect: Effect) {
    match effect {
        Effect::Answer(waiter, result) => actor.answer(waiter, result),
        Effect::Ack(ack) => actor.ack(ack),
        Effect::Save(writes, then) => save(actor, writes, then),
        Effect::Run(config, _) => run(actor, *config),
        Effect::CancelRun => actor.run.iter().for_each(Canceller::cancel),
        Effect::CancelCreate(id) => actor.creates.get(&id).into_iter().for_each(Canceller::cancel),
        Effect::Create(draft, record) => create(actor, draft, record),
        Effect::Timer(id, round, wait) => timer(actor, id, round, wait),
        Effect::Teardown(record) => {
            let (ground, shim) = (actor.seat.ground.clone(), actor.shim.clone());
            let before = Box::new(record.network.clone());
            spawn(&actor.seat, |error| Input::TornDown(before, Err(error)), async move {
                let (network, result) = sandbox::tear_down(&ground, &record, shim.as_ref()).await;
                Input::TornDown(Box::new(network), result)
            });
        }
        Effect::Unmake(record) => {
            let ground = actor.seat.ground.clone();
            let work = async move { Input::Unmade(sandbox::unmake(&ground, &record).await) };
            spawn(&actor.seat, |error| Input::Unmade(Err(error)), work);
        }
        other => perform_on_container(actor, other),
    }
}

fn perform_on_container(actor: &mut Actor, effect: Effect) {
    let (seat, shim, ground) = (actor.seat.clone(), actor.shim.clone(), actor.seat.ground.clone());
    match effect {
        Effect::Start(id) => {
            let failed = move |error| Input::Started(id, Err(StartFailure::NoAnswer(error)));
            spawn(&seat, failed, async move {
                let result = container::start(shim.as_ref(), id).await;
                Input::Started(id, result.map_err(start_failure))
            });
        }
        Effect::Signal { id, signal, all } => {
            tokio::spawn(async move { container::signal(shim.as_ref(), id, signal, all).await });
        }
        Effect::KillCgroup(record) => {
            let id = record.id;
            let work = async move { Input::CgroupKilled(id, container::kill_cgroup(&ground, record).await) };
            spawn(&seat, move |error| Input::CgroupKilled(id, Err(error)), work);
        }
        Effect::KillAll(records) => spawn(&seat, |_| Input::AllKilled, async move {
            container::kill_all(&ground, records).await;
            Input::AllKilled
        }),
        Effect::Delete(record) => {
            let id = record.id;
            let failed = move |error| Input::Deleted(id, Err(error));
            spawn(&seat, failed, async move {
                Input::Deleted(id, container::delete(&ground, &record, shim.as_ref()).await)
            });
        }
        Effect::Update(record, resources, waiter) => update(&seat, shim, record, resources, waiter),
        other => tracing::error!(?other, "an effect without a task"),
    }
}

fn update(
    seat: &Seat,
    shim: Option<Shim>,
    record: Arc<ContainerRecord>,
    resources: Box<sandbox::Resources>,
    waiter: Waiter,
) {
    let (ground, id, asked) = (seat.ground.clone(), record.id, resources.clone());
    let failed = move |error| Input::Updated(id, asked, Err(error), waiter);
    spawn(seat, failed, async move {
        let result = container::update(&ground, shim.as_ref(), &record, &resources).await;
        Input::Updated(id, resources, result, waiter)
    });
}

/// Only the latest timer of a container counts.
fn timer(actor: &mut Actor, id: ContainerId, round: u32, wait: Duration) {
    let mail = actor.seat.mail.clone();
    let task = tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        let _ = mail.send(Mail::Fact(Box::new(Input::Timer(id, round)))).await;
    });
    if let Some(before) = actor.timers.insert(id, task.abort_handle()) {
        before.abort();
    }
}

/// Runs a task whose end is mail. If it panics, its failure is the mail, so that nobody waits for ever.
fn spawn(
    seat: &Seat,
    failed: impl FnOnce(Error) -> Input + Send + 'static,
    work: impl Future<Output = Input> + Send + 'static,
) {
    let mail = seat.mail.clone();
    let work = tokio::spawn(work);
    tokio::spawn(async move {
        let input = work.await.unwrap_or_else(|_| failed(panicked()));
        let _ = mail.send(Mail::Fact(Box::new(input))).await;
    });
}

/// What whoever waits is told; the panic itself is in the log.
fn panicked() -> Error {
    Error::internal("run a step", "a fault in berthd ended it, the log tells where")
}

fn run(actor: &mut Actor, config: sandbox::SandboxConfig) {
    let (canceller, cancel) = Canceller::new();
    actor.run = Some(canceller);
    let (seat, mail) = (actor.seat.clone(), actor.seat.mail.clone());
    let work =
        tokio::spawn(async move { sandbox::run(&seat.ground, seat.id, &seat.handler, config, cancel).await });
    tokio::spawn(async move {
        let made = work.await.unwrap_or_else(|_| Err(panicked().into()));
        let _ = mail.send(Mail::Ran(Box::new(made))).await;
    });
}

fn create(actor: &mut Actor, draft: super::machine::Draft, record: std::sync::Arc<sandbox::SandboxRecord>) {
    let (canceller, cancel) = Canceller::new();
    let id = draft.id;
    actor.creates.insert(id, canceller);
    let (ground, shim) = (actor.seat.ground.clone(), actor.shim.clone());
    let views = actor.seat.views.clone();
    let failed = move |error| Input::Created(id, Err(error));
    spawn(&actor.seat, failed, async move {
        let neighbours = views.latest();
        let place =
            container::Place { ground: &ground, sandbox: &record, shim: shim.as_ref(), pod: &neighbours };
        Input::Created(id, container::create(place, draft, cancel).await.map(Box::new))
    });
}

fn save(actor: &Actor, writes: Vec<Write>, then: Saved) {
    let containers = writes.iter().filter_map(|write| match write {
        Write::Container(record) => Some(record.id),
        Write::Sandbox(_) => None,
    });
    let containers = containers.collect();
    // Sent here and not in the task: the order of saves is the order of effects.
    let saving = actor.seat.ground.recorder.save(writes.into_iter().map(Row::from).collect());
    let mail = actor.seat.mail.clone();
    tokio::spawn(async move {
        let result = saving.await;
        let _ = mail.send(Mail::Saved(then, result, containers)).await;
    });
}

/// A refusal is the container's own fault; anything else leaves open whether it started.
fn start_failure(error: Error) -> StartFailure {
    use berth_core::ErrorClass::{DeadlineExceeded, Unavailable};
    match error.class() {
        DeadlineExceeded | Unavailable => StartFailure::NoAnswer(error),
        _ => StartFailure::Refused(error),
    }
}
