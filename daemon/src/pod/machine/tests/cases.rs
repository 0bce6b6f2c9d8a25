//! Named cases: each one once went wrong somewhere.

use super::*;

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
