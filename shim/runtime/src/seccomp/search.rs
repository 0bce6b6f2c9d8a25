//! Finding a call's answer by bisection.

use super::emit::{AT_NUMBER, Builder, JUMP_EQUAL, JUMP_GREATER_EQUAL, Label};
use super::rules::{Answers, Decision};

/// A run of numbers from `first` on with the same answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    first: u32,
    answer: Decision,
}

/// Neighbouring runs that are tested one number at a time: the answer of all numbers but some, and those.
struct Cluster {
    first: u32,
    most: Decision,
    singles: Vec<(u32, Decision)>,
}

/// Longest chain of single tests in one cluster; a longer one costs more steps than it saves instructions.
const LONGEST_CHAIN: usize = 4;

/// The code that answers one convention's calls; it starts by loading the number.
pub(super) fn emit(builder: &mut Builder, answers: &Answers, mask: Option<u32>) -> Label {
    // Conditional rules first: they lie behind the search, so that the search jumps forward to them.
    for decision in answers.calls.values() {
        if let Decision::Depends(choice) = decision {
            builder.choice(choice);
        }
    }
    let clusters = clusters(&runs(answers));
    let mut entry = bisect(builder, &clusters);
    if let Some(mask) = mask {
        entry = builder.and(mask, entry);
    }
    builder.load(AT_NUMBER, entry)
}

/// All numbers as runs, in order; the first begins at 0.
fn runs(answers: &Answers) -> Vec<Run> {
    let after = |number: &u32| number.checked_add(1);
    let edges = answers.calls.keys().copied().chain(answers.calls.keys().filter_map(after));
    let mut edges: Vec<u32> = edges.chain(answers.newest.as_ref().and_then(after)).chain([0]).collect();
    edges.sort_unstable();
    let mut runs: Vec<Run> = Vec::new();
    for first in edges {
        let answer = answers.answer(first);
        if runs.last().is_none_or(|last| last.answer != answer) {
            runs.push(Run { first, answer });
        }
    }
    runs
}

/// Joins `A x A y A` with single `x`, `y` to clusters.
fn clusters(runs: &[Run]) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    let mut at = 0;
    while let Some(run) = runs.get(at) {
        let mut cluster = Cluster { first: run.first, most: run.answer.clone(), singles: Vec::new() };
        at += 1;
        while let [single, again, ..] = runs.get(at..).unwrap_or_default()
            && again.first == single.first + 1
            && again.answer == cluster.most
            && cluster.singles.len() < LONGEST_CHAIN
        {
            cluster.singles.push((single.first, single.answer.clone()));
            at += 2;
        }
        clusters.push(cluster);
    }
    clusters
}

fn bisect(builder: &mut Builder, clusters: &[Cluster]) -> Label {
    match clusters {
        [] => builder.give(super::rules::RET_KILL_PROCESS),
        [only] => {
            let mut entry = answer(builder, &only.most);
            for (number, decision) in only.singles.iter().rev() {
                let hit = answer(builder, decision);
                entry = builder.branch(JUMP_EQUAL, *number, hit, entry);
            }
            entry
        }
        many => {
            let (left, right) = many.split_at(many.len() / 2);
            let above = bisect(builder, right);
            let below = bisect(builder, left);
            builder.branch(JUMP_GREATER_EQUAL, right[0].first, above, below)
        }
    }
}

fn answer(builder: &mut Builder, decision: &Decision) -> Label {
    match decision {
        Decision::Always(ret) => builder.give(*ret),
        Decision::Depends(choice) => builder.choice(choice),
    }
}
