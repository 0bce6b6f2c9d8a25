//! Effects become tasks; the end of a task is mail. A task that panics ends nothing but itself.

use super::actor::{Actor, Mail, Seat};
use super::machine::{Effect, Input, Saved, StartFailure, Write};
use super::{Canceller, Error, Row};
use crate::{container, sandbox};
use berth_core::Classified;
use std::future::Future;

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
        Effect::Timer(id, round, wait) => spawn(&actor.seat, async move {
            tokio::time::sleep(wait).await;
            Input::Timer(id, round)
        }),
        Effect::Teardown(record) => {
            let (ground, shim) = (actor.seat.ground.clone(), actor.shim.clone());
            spawn(&actor.seat, async move {
                let (network, result) = sandbox::tear_down(&ground, &record, shim.as_ref()).await;
                Input::TornDown(Box::new(network), result)
            });
        }
        Effect::Unmake(record) => {
            let ground = actor.seat.ground.clone();
            spawn(&actor.seat, async move { Input::Unmade(sandbox::unmake(&ground, &record).await) });
        }
        other => perform_on_container(actor, other),
    }
}

fn perform_on_container(actor: &mut Actor, effect: Effect) {
    let (seat, shim, ground) = (actor.seat.clone(), actor.shim.clone(), actor.seat.ground.clone());
    match effect {
        Effect::Start(id) => spawn(&seat, async move {
            let result = container::start(shim.as_ref(), id).await;
            Input::Started(id, result.map_err(start_failure))
        }),
        Effect::Signal { id, signal, all } => {
            tokio::spawn(async move { container::signal(shim.as_ref(), id, signal, all).await });
        }
        Effect::KillCgroup(record) => spawn(&seat, async move {
            Input::CgroupKilled(record.id, container::kill_cgroup(&ground, record).await)
        }),
        Effect::KillAll(records) => spawn(&seat, async move {
            container::kill_all(&ground, records).await;
            Input::AllKilled
        }),
        Effect::Delete(record) => spawn(&seat, async move {
            Input::Deleted(record.id, container::delete(&ground, &record, shim.as_ref()).await)
        }),
        Effect::Update(record, resources, waiter) => spawn(&seat, async move {
            let result = container::update(&ground, shim.as_ref(), &record, &resources).await;
            Input::Updated(record.id, resources, result, waiter)
        }),
        other => tracing::error!(?other, "an effect without a task"),
    }
}

/// Runs a task whose end is mail. Its panic is mail to nobody: the operation stays as it is, and stop and remove,
/// which have deadlines of their own, still work.
fn spawn(seat: &Seat, work: impl Future<Output = Input> + Send + 'static) {
    let mail = seat.mail.clone();
    tokio::spawn(async move {
        let input = work.await;
        let _ = mail.send(Mail::Fact(Box::new(input))).await;
    });
}

fn run(actor: &mut Actor, config: sandbox::SandboxConfig) {
    let (canceller, cancel) = Canceller::new();
    actor.run = Some(canceller);
    let seat = actor.seat.clone();
    tokio::spawn(async move {
        let work = sandbox::run(&seat.ground, seat.id, &seat.handler, config, cancel);
        let _ = seat.mail.send(Mail::Ran(Box::new(work.await))).await;
    });
}

fn create(actor: &mut Actor, draft: super::machine::Draft, record: std::sync::Arc<sandbox::SandboxRecord>) {
    let (canceller, cancel) = Canceller::new();
    let id = draft.id;
    actor.creates.insert(id, canceller);
    let (ground, shim) = (actor.seat.ground.clone(), actor.shim.clone());
    let views = actor.seat.views.clone();
    spawn(&actor.seat, async move {
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
