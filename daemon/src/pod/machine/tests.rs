//! A machine with somebody who keeps its books; named cases, and random orders of inputs.

mod cases;
mod random;

use super::*;
use crate::container::{ContainerConfig, ContainerState, Reason};
use crate::sandbox::{Live, NamespacePaths, SandboxState};
use std::collections::BTreeMap;

fn sandbox_id() -> SandboxId {
    SandboxId::parse(&"a".repeat(64)).unwrap()
}

fn id(number: usize) -> ContainerId {
    ContainerId::parse(&format!("{number:064x}")).unwrap()
}

fn sandbox_config(label: &str) -> SandboxConfig {
    let (name, uid, namespace) = ("web".to_owned(), "u".to_owned(), "default".to_owned());
    SandboxConfig { name, uid, namespace, hostname: label.to_owned(), ..SandboxConfig::default() }
}

fn ready(config: SandboxConfig) -> SandboxRecord {
    let live = Live { shim_pid: 7, socket: "/s".into(), namespaces: NamespacePaths::default() };
    SandboxRecord {
        id: sandbox_id(),
        handler: String::new(),
        config,
        created_at: Timestamp(1),
        boot_id: "b".into(),
        cgroup: String::new(),
        network: SandboxNetwork::Host,
        state: SandboxState::Ready(live),
    }
}

/// What could not be undone.
fn half(mut record: SandboxRecord) -> SandboxRecord {
    record.state = SandboxState::NotReady { at: Timestamp(2), cause: Some("half made".into()) };
    record
}

fn draft(number: usize, name: &str, arg: &str) -> Draft {
    let config = ContainerConfig { name: name.into(), args: vec![arg.into()], ..ContainerConfig::default() };
    Draft { id: id(number), created_at: Timestamp(10), config: Arc::new(config) }
}

fn made(draft: &Draft) -> ContainerRecord {
    ContainerRecord {
        id: draft.id,
        sandbox: sandbox_id(),
        config: ContainerConfig::clone(&draft.config),
        image_id: "sha256:x".into(),
        image_ref: "x".into(),
        created_at: draft.created_at,
        boot_id: "b".into(),
        cgroup: "/c".into(),
        log: None,
        stop_signal: 15,
        user: None,
        state: ContainerState::Created { pid: 100 },
    }
}

/// A machine with somebody who keeps its books: answers, saves, and effects that are still to end.
struct World {
    machine: Machine,
    mono: Duration,
    next: Waiter,
    asked: BTreeMap<Waiter, &'static str>,
    answers: BTreeMap<Waiter, Result<Reply, Error>>,
    pending: Vec<Effect>,
    acked: Vec<Ack>,
}

impl World {
    fn new() -> Self {
        let machine = Machine::new(sandbox_id());
        let (asked, answers) = (BTreeMap::new(), BTreeMap::new());
        Self { machine, mono: Duration::ZERO, next: 0, asked, answers, pending: vec![], acked: vec![] }
    }

    fn ready() -> Self {
        let mut world = Self::new();
        let run = world.ask(Request::Run(Box::new(sandbox_config("h"))));
        world.finish_all();
        assert_eq!(world.answers[&run], Ok(Reply::Sandbox(sandbox_id())));
        world
    }

    fn feed(&mut self, input: Input) {
        self.mono += Duration::from_millis(1);
        let wall = Timestamp(1000 + i64::try_from(self.mono.as_nanos()).unwrap());
        let now = Now { wall, mono: self.mono };
        for effect in self.machine.handle(now, input) {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Answer(waiter, result) => self.answered(waiter, result),
            Effect::Ack(ack) => self.acked.push(ack),
            Effect::Save(_, then) => {
                then.answers.into_iter().for_each(|(waiter, result)| self.answered(waiter, result));
                self.acked.extend(then.acks);
            }
            other => self.pending.push(other),
        }
    }

    fn answered(&mut self, waiter: Waiter, result: Result<Reply, Error>) {
        assert!(self.asked.contains_key(&waiter), "an answer to nobody");
        assert!(self.answers.insert(waiter, result).is_none(), "two answers to one request");
    }

    fn ask(&mut self, request: Request) -> Waiter {
        self.next += 1;
        let waiter = self.next;
        self.asked.insert(waiter, "request");
        self.feed(Input::Request(request, waiter));
        waiter
    }

    /// Ends one pending effect, well or badly.
    fn finish(&mut self, index: usize, well: bool) {
        if self.pending.is_empty() {
            return;
        }
        let effect = self.pending.remove(index % self.pending.len());
        let bad = Error::internal("test", "made to fail");
        let done = if well { Ok(()) } else { Err(bad.clone()) };
        let input = match effect {
            Effect::Run(config, _) => {
                let remains = || index.is_multiple_of(2).then(|| Box::new(half(ready(*config.clone()))));
                Input::Ran(
                    done.map(|()| Box::new(ready(*config.clone()))).map_err(|error| (error, remains())),
                )
            }
            Effect::Teardown(record) => Input::TornDown(Box::new(record.network.clone()), done),
            Effect::Unmake(_) => Input::Unmade(done),
            Effect::Create(draft, _) => Input::Created(draft.id, done.map(|()| Box::new(made(&draft)))),
            Effect::Start(id) => {
                Input::Started(id, done.map(|()| Timestamp(2000)).map_err(StartFailure::Refused))
            }
            Effect::KillCgroup(record) => Input::CgroupKilled(record.id, done),
            Effect::KillAll(_) => Input::AllKilled,
            Effect::Delete(record) => Input::Deleted(record.id, done),
            Effect::Update(record, resources, waiter) => Input::Updated(record.id, resources, done, waiter),
            Effect::Timer(id, round, wait) => {
                self.mono += wait;
                Input::Timer(id, round)
            }
            Effect::Signal { id, .. } if well => self.exit_of(id),
            _ => return,
        };
        self.feed(input);
    }

    fn exit_of(&mut self, id: ContainerId) -> Input {
        self.next += 1;
        Input::Exited(
            id,
            Exit { code: 143, at: Timestamp(3000), oom: false, cause: String::new() },
            self.next,
        )
    }

    fn exit(&mut self, id: ContainerId) -> Ack {
        let input = self.exit_of(id);
        let ack = self.next;
        self.feed(input);
        ack
    }

    fn finish_all(&mut self) {
        for _ in 0..1000 {
            if self.pending.is_empty() {
                return;
            }
            self.finish(0, true);
        }
        panic!("effects without end: {:?}", self.pending);
    }

    /// Ends all effects but timers.
    fn settle(&mut self) {
        while let Some(at) = self.pending.iter().position(|effect| !matches!(effect, Effect::Timer(..))) {
            self.finish(at, true);
        }
    }

    fn state(&self, id: ContainerId) -> Option<&ContainerState> {
        self.machine.slots.get(&id).and_then(Slot::record).map(|record| &record.state)
    }

    fn running(number: usize) -> Self {
        let mut world = Self::ready();
        world.ask(Request::Create(draft(number, "c", "")));
        world.finish_all();
        world.ask(Request::Start(id(number)));
        world.finish_all();
        assert!(matches!(world.state(id(number)), Some(ContainerState::Running { pid: 100, .. })));
        world
    }
}
