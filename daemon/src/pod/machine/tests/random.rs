//! Random orders of inputs, against what must always hold.

use super::*;
use proptest::prelude::*;

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
