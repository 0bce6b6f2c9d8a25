//! Named cases, and random orders of inputs against what must always hold.

use super::*;
use crate::container::{ContainerConfig, ContainerState, Reason};
use crate::sandbox::{Live, NamespacePaths, SandboxState};
use proptest::prelude::*;
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

#[test]
fn the_same_request_joins_and_another_one_is_refused() {
    let mut world = World::new();
    let first = world.ask(Request::Run(Box::new(sandbox_config("h"))));
    let second = world.ask(Request::Run(Box::new(sandbox_config("h"))));
    let other = world.ask(Request::Run(Box::new(sandbox_config("x"))));
    assert_eq!(world.pending.len(), 1);
    assert!(matches!(world.answers[&other], Err(Error::Exists { state: "being created", .. })));
    world.finish_all();
    assert_eq!(world.answers[&first], world.answers[&second]);
    let later = world.ask(Request::Run(Box::new(sandbox_config("h"))));
    assert_eq!(world.answers[&later], Ok(Reply::Sandbox(sandbox_id())));
}

#[test]
fn a_failed_run_leaves_nothing_and_tells_everybody() {
    let mut world = World::new();
    let first = world.ask(Request::Run(Box::new(sandbox_config("h"))));
    let stop = world.ask(Request::StopSandbox);
    assert!(world.pending.iter().any(|effect| matches!(effect, Effect::CancelRun)));
    world.finish(0, false);
    assert!(world.answers[&first].is_err());
    world.finish_all();
    assert_eq!(world.answers[&stop], Ok(Reply::Done));
    assert!(world.machine.is_gone());
}

#[test]
fn containers_of_one_name_join_return_or_are_refused() {
    let mut world = World::ready();
    let first = world.ask(Request::Create(draft(1, "c", "a")));
    let joined = world.ask(Request::Create(draft(2, "c", "a")));
    let other = world.ask(Request::Create(draft(3, "c", "b")));
    world.finish_all();
    assert_eq!(world.answers[&first], Ok(Reply::Container(id(1))));
    assert_eq!(world.answers[&joined], Ok(Reply::Container(id(1))));
    assert!(matches!(world.answers[&other], Err(Error::Exists { .. })));
    let again = world.ask(Request::Create(draft(4, "c", "a")));
    assert_eq!(world.answers[&again], Ok(Reply::Container(id(1))));
    world.ask(Request::Start(id(1)));
    world.finish_all();
    let late = world.ask(Request::Create(draft(5, "c", "a")));
    assert!(matches!(world.answers[&late], Err(Error::Exists { state: "running", .. })));
}

#[test]
fn two_stops_share_one_end_and_the_shorter_deadline_wins() {
    let mut world = World::running(1);
    let slow = world.ask(Request::Stop(id(1), Duration::from_secs(60)));
    let signals = |world: &World| {
        let signal = |effect: &Effect| match effect {
            Effect::Signal { signal, all, .. } => Some((*signal, *all)),
            _ => None,
        };
        world.pending.iter().filter_map(signal).collect::<Vec<_>>()
    };
    assert_eq!(signals(&world), [(15, false)]);
    let fast = world.ask(Request::Stop(id(1), Duration::from_secs(1)));
    assert_eq!(signals(&world), [(15, false)], "nobody is asked twice");
    let timer =
        |effect: &Effect| matches!(effect, Effect::Timer(_, _, wait) if *wait == Duration::from_secs(1));
    let at = world.pending.iter().position(timer).unwrap();
    world.finish(at, true);
    assert_eq!(signals(&world), [(15, false), (9, true)]);
    world.exit(id(1));
    assert_eq!((&world.answers[&slow], &world.answers[&fast]), (&Ok(Reply::Done), &Ok(Reply::Done)));
    world.finish_all();
}

#[test]
fn an_exit_is_acknowledged_once_and_never_changes() {
    let mut world = World::running(1);
    let first = world.exit(id(1));
    let state = world.state(id(1)).cloned();
    let again = world.exit(id(1));
    let unknown = world.exit(id(9));
    assert_eq!(world.acked, [first, again, unknown]);
    assert_eq!(world.state(id(1)).cloned(), state);
}

#[test]
fn an_exit_before_the_start_is_told_ends_as_an_exit() {
    let mut world = World::ready();
    world.ask(Request::Create(draft(1, "c", "")));
    world.finish_all();
    let start = world.ask(Request::Start(id(1)));
    let ack = world.exit(id(1));
    assert!(world.acked.is_empty());
    world.finish_all();
    assert_eq!(world.answers[&start], Ok(Reply::Done));
    assert_eq!(world.acked, [ack]);
    let Some(ContainerState::Exited(exited)) = world.state(id(1)) else { panic!("not exited") };
    assert_eq!((exited.started_at, exited.finished_at, exited.code), (Timestamp(2000), Timestamp(3000), 143));
}

#[test]
fn a_program_that_cannot_start_is_exited_with_the_reason() {
    let mut world = World::ready();
    world.ask(Request::Create(draft(1, "c", "")));
    world.finish_all();
    let start = world.ask(Request::Start(id(1)));
    world.finish(0, false);
    assert!(world.answers[&start].is_err());
    let Some(ContainerState::Exited(exited)) = world.state(id(1)) else { panic!("not exited") };
    assert_eq!((exited.code, exited.reason), (128, Reason::StartError));
    assert!(exited.message.contains("made to fail"));
}

#[test]
fn a_lost_shim_ends_everything_and_the_pod_can_be_removed() {
    let mut world = World::running(1);
    world.feed(Input::ShimLost("died".into()));
    let stop = world.ask(Request::Stop(id(1), Duration::from_secs(5)));
    world.settle();
    let Some(ContainerState::Exited(exited)) = world.state(id(1)) else { panic!("not exited") };
    assert_eq!((exited.code, exited.reason), (137, Reason::ShimLost));
    assert_eq!(world.answers[&stop], Ok(Reply::Done));
    assert!(!world.machine.sandbox().unwrap().is_ready());
    let remove = world.ask(Request::RemoveSandbox);
    world.finish_all();
    assert_eq!(world.answers[&remove], Ok(Reply::Done));
    assert!(world.machine.is_gone());
}

#[test]
fn a_container_made_while_the_sandbox_stops_is_taken_away_again() {
    let mut world = World::ready();
    let create = world.ask(Request::Create(draft(1, "c", "")));
    let stop = world.ask(Request::StopSandbox);
    let late = world.ask(Request::Create(draft(2, "d", "")));
    assert!(matches!(world.answers[&late], Err(Error::State { .. })));
    world.finish_all();
    assert!(matches!(world.answers[&create], Err(Error::Cancelled(_))));
    assert_eq!(world.answers[&stop], Ok(Reply::Done));
    assert_eq!(world.machine.containers().count(), 0);
}

#[test]
fn a_fact_that_could_not_be_saved_is_saved_when_it_is_told_again() {
    let mut world = World::running(1);
    world.exit(id(1));
    world.feed(Input::SaveFailed(id(1)));
    let wall = Timestamp(5000);
    let exit = Exit { code: 143, at: Timestamp(3000), oom: false, cause: String::new() };
    let effects = world.machine.handle(Now { wall, mono: world.mono }, Input::Exited(id(1), exit, 77));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Save(_, then) if then.acks == [77])));
}

#[test]
fn a_failed_teardown_can_be_tried_again() {
    let mut world = World::ready();
    let first = world.ask(Request::StopSandbox);
    world.finish(0, false);
    assert!(world.answers[&first].is_err());
    let remove = world.ask(Request::RemoveSandbox);
    world.finish_all();
    assert_eq!(world.answers[&remove], Ok(Reply::Done));
}

#[test]
fn a_container_on_its_way_out_is_not_saved_again() {
    let mut world = World::ready();
    world.ask(Request::Create(draft(1, "c", "")));
    world.ask(Request::StopSandbox);
    let at = world.pending.iter().position(|effect| matches!(effect, Effect::Create(..))).unwrap();
    world.finish(at, true);
    let exit = Exit { code: 137, at: Timestamp(3000), oom: false, cause: String::new() };
    let now = Now { wall: Timestamp(4000), mono: world.mono };
    let effects = world.machine.handle(now, Input::Exited(id(1), exit, 55));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Save(..))), "its row would come back");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Ack(55))));
}

#[test]
fn changes_of_limits_follow_each_other_and_keep_what_they_do_not_name() {
    let mut world = World::running(1);
    let limits = |shares, memory| {
        Box::new(Resources { cpu_shares: shares, memory_limit: memory, ..Resources::default() })
    };
    let first = world.ask(Request::Update(id(1), limits(512, 0)));
    let second = world.ask(Request::Update(id(1), limits(0, 64)));
    assert_eq!(world.pending.len(), 1, "one at a time");
    world.settle();
    assert_eq!((&world.answers[&first], &world.answers[&second]), (&Ok(Reply::Done), &Ok(Reply::Done)));
    let record = world.machine.slots[&id(1)].record().unwrap();
    assert_eq!((record.config.resources.cpu_shares, record.config.resources.memory_limit), (512, 64));
}

#[test]
fn a_start_without_an_answer_is_killed_and_not_guessed() {
    let mut world = World::ready();
    world.ask(Request::Create(draft(1, "c", "")));
    world.finish_all();
    let start = world.ask(Request::Start(id(1)));
    world.pending.clear();
    world.feed(Input::Started(id(1), Err(StartFailure::NoAnswer(Error::Closed))));
    assert!(world.answers[&start].is_err());
    assert!(matches!(world.state(id(1)), Some(ContainerState::Created { .. })));
    assert!(world.pending.iter().any(|effect| matches!(effect, Effect::Signal { signal: 9, all: true, .. })));
    world.exit(id(1));
    assert!(matches!(world.state(id(1)), Some(ContainerState::Exited(_))));
}

#[test]
fn a_failed_removal_does_not_take_a_teardown_away() {
    let mut world = World::running(1);
    world.exit(id(1));
    let remove = world.ask(Request::Remove(id(1)));
    let stop = world.ask(Request::StopSandbox);
    let at = world.pending.iter().position(|effect| matches!(effect, Effect::Delete(_))).unwrap();
    world.finish(at, false);
    assert!(world.answers[&remove].is_err() && world.answers[&stop].is_err());
    let stop = world.ask(Request::StopSandbox);
    let remove = world.ask(Request::Remove(id(1)));
    let at = world.pending.iter().position(|effect| matches!(effect, Effect::Delete(_))).unwrap();
    world.finish(at, false);
    assert!(world.answers[&remove].is_err());
    assert_eq!(world.pending.iter().filter(|effect| matches!(effect, Effect::Teardown(_))).count(), 1);
    world.finish_all();
    assert_eq!(world.answers[&stop], Ok(Reply::Done));
    assert!(!world.machine.sandbox().unwrap().is_ready());
}

#[test]
fn a_container_made_while_its_pod_is_being_killed_is_taken_away() {
    let mut world = World::ready();
    let create = world.ask(Request::Create(draft(1, "c", "")));
    world.feed(Input::ShimLost("died".into()));
    let at = world.pending.iter().position(|effect| matches!(effect, Effect::Create(..))).unwrap();
    world.finish(at, true);
    assert!(world.answers[&create].is_err());
    assert!(world.pending.iter().any(|effect| matches!(effect, Effect::Delete(_))));
    world.finish_all();
    assert_eq!(world.machine.containers().count(), 0);
}

#[test]
fn a_shim_that_is_found_again_tells_what_runs() {
    let mut sandbox = ready(sandbox_config("h"));
    sandbox.created_at = Timestamp(1);
    let draft = draft(1, "c", "");
    let mut machine = Machine::restore(sandbox, vec![made(&draft)]);
    assert!(machine.expects_shim());
    let effects = machine.handle(Now::default(), Input::Running(id(1), Timestamp(20)));
    assert!(matches!(effects[..], [Effect::Save(..)]));
    let state = machine.containers().next().unwrap().state.clone();
    assert_eq!(state, ContainerState::Running { pid: 100, started_at: Timestamp(20) });
}

/// One random step.
#[derive(Debug, Clone)]
enum Step {
    Run(bool),
    StopSandbox,
    RemoveSandbox,
    Create(usize, bool),
    Start(usize),
    Stop(usize, u64),
    Remove(usize),
    Update(usize),
    Exit(usize),
    Lost,
    Finish(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => any::<bool>().prop_map(Step::Run),
        1 => Just(Step::StopSandbox),
        1 => Just(Step::RemoveSandbox),
        3 => (1..4usize, any::<bool>()).prop_map(|(n, same)| Step::Create(n, same)),
        3 => (1..4usize).prop_map(Step::Start),
        3 => (1..4usize, 0..3u64).prop_map(|(n, grace)| Step::Stop(n, grace)),
        2 => (1..4usize).prop_map(Step::Remove),
        1 => (1..4usize).prop_map(Step::Update),
        2 => (1..4usize).prop_map(Step::Exit),
        1 => Just(Step::Lost),
        10 => (0..8usize, prop::bool::weighted(0.85)).prop_map(|(at, well)| Step::Finish(at, well)),
    ]
}

fn take(world: &mut World, step: &Step) {
    if world.machine.is_gone() && !matches!(step, Step::Run(_)) {
        return;
    }
    if let Some(request) = request(world, step) {
        world.ask(request);
    }
    match *step {
        Step::Exit(n) => {
            if let Some(id) = any_container(world, n) {
                world.exit(id);
            }
        }
        Step::Lost => world.feed(Input::ShimLost("lost".into())),
        Step::Finish(at, well) => world.finish(at, well),
        _ => {}
    }
}

fn request(world: &World, step: &Step) -> Option<Request> {
    let some = |n| any_container(world, n);
    Some(match *step {
        Step::Run(same) => Request::Run(Box::new(sandbox_config(if same { "h" } else { "x" }))),
        Step::StopSandbox => Request::StopSandbox,
        Step::RemoveSandbox => Request::RemoveSandbox,
        Step::Create(n, same) => {
            let fresh = usize::try_from(world.next).unwrap() * 16 + n;
            Request::Create(draft(fresh, ["a", "b", "c", "d"][n], if same { "1" } else { "2" }))
        }
        Step::Start(n) => Request::Start(some(n)?),
        Step::Stop(n, grace) => Request::Stop(some(n)?, Duration::from_secs(grace)),
        Step::Remove(n) => Request::Remove(some(n)?),
        Step::Update(n) => Request::Update(some(n)?, Box::default()),
        Step::Exit(_) | Step::Lost | Step::Finish(..) => return None,
    })
}

fn any_container(world: &World, n: usize) -> Option<ContainerId> {
    let ids: Vec<ContainerId> = world.machine.slots.keys().copied().collect();
    ids.get(n % ids.len().max(1)).copied()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever happens in whatever order: everybody is answered exactly once, ends never change, times do not run
    /// backwards, and a removal at the end leaves nothing.
    #[test]
    fn random_orders_end_well(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        world.ask(Request::Run(Box::new(sandbox_config("h"))));
        let mut ends: BTreeMap<ContainerId, ContainerState> = BTreeMap::new();
        for step in &steps {
            take(&mut world, step);
            for record in world.machine.containers() {
                if let ContainerState::Exited(exited) = &record.state {
                    prop_assert!(exited.finished_at >= exited.started_at);
                    let before = ends.entry(record.id).or_insert_with(|| record.state.clone());
                    prop_assert_eq!(&*before, &record.state);
                } else {
                    prop_assert!(!ends.contains_key(&record.id), "a container came back to life");
                }
            }
        }
        let mut removed = world.machine.is_gone();
        for _ in 0..3 {
            world.finish_all();
            if !world.machine.is_gone() {
                world.ask(Request::RemoveSandbox);
                world.finish_all();
            }
            removed = world.machine.is_gone();
        }
        prop_assert!(removed, "{:?}", world.machine);
        prop_assert_eq!(world.asked.len(), world.answers.len(), "somebody still waits");
    }
}
