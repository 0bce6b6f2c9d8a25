//! The life of a container, as pure steps.

use berth_core::Timestamp;
use berth_core::exit::{CODE_START_FAILED, Exit};

/// Where a container is in its life; each state holds what is true then and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Built, its program not yet executed.
    Created,
    /// Its program could not be executed; its first process is about to be reaped.
    Doomed {
        /// Why not.
        cause: String,
    },
    /// Its program runs.
    Running {
        /// Since when.
        started_at: Timestamp,
    },
    /// Its first process has been reaped.
    Stopped {
        /// When it was started, if it was.
        started_at: Timestamp,
        /// How it ended.
        exit: Exit,
    },
}

impl Phase {
    /// The state's name, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Phase::Created => "created",
            Phase::Doomed { .. } => "failing to start",
            Phase::Running { .. } => "running",
            Phase::Stopped { .. } => "stopped",
        }
    }

    /// How a start went, unless the container's end was told before the start came to its own.
    pub(crate) fn settle(&mut self, next: Phase) {
        if *self == Phase::Created {
            *self = next;
        }
    }

    /// The first process has ended with `code`, at `at`, after so many kills for lack of memory.
    pub(crate) fn ended(self, code: u8, at: Timestamp, oom_kills: u64) -> Phase {
        match self {
            Phase::Created => Phase::Stopped {
                started_at: Timestamp::NEVER,
                exit: Exit {
                    cause: "ended before it was started".into(),
                    ..Exit::ended(code, at, oom_kills)
                },
            },
            Phase::Doomed { cause } => Phase::Stopped {
                started_at: Timestamp::NEVER,
                exit: Exit::without_code(CODE_START_FAILED, at, cause),
            },
            Phase::Running { started_at } => {
                Phase::Stopped { started_at, exit: Exit::ended(code, at.at_least(started_at), oom_kills) }
            }
            stopped @ Phase::Stopped { .. } => stopped,
        }
    }

    /// How it ended, once it has.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        match self {
            Phase::Stopped { exit, .. } => Some(exit),
            _ => None,
        }
    }

    /// When its program was started, if it was.
    pub(crate) fn started_at(&self) -> Timestamp {
        match self {
            Phase::Running { started_at } | Phase::Stopped { started_at, .. } => *started_at,
            Phase::Created | Phase::Doomed { .. } => Timestamp::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_never_ran_has_no_code_of_its_own() {
        let doomed = Phase::Doomed { cause: "execute /x: ENOENT".into() };
        let Phase::Stopped { started_at, exit } = doomed.ended(1, Timestamp(5), 0) else { panic!("stopped") };
        assert_eq!(
            (started_at, exit.code, exit.cause.as_str()),
            (Timestamp::NEVER, 128, "execute /x: ENOENT")
        );
        let early = Phase::Created.ended(0, Timestamp(5), 0);
        assert!(early.exit().is_some_and(|exit| !exit.cause.is_empty()));
    }

    #[test]
    fn a_late_start_does_not_revive() {
        let mut phase = Phase::Created.ended(9, Timestamp(5), 0);
        let told = phase.clone();
        phase.settle(Phase::Running { started_at: Timestamp(4) });
        assert_eq!(phase, told);
    }

    #[test]
    fn an_end_is_never_before_its_beginning_and_comes_once() {
        let stopped = Phase::Running { started_at: Timestamp(9) }.ended(3, Timestamp(7), 1);
        assert_eq!(stopped.exit(), Some(&Exit::ended(3, Timestamp(9), 1)));
        assert_eq!(stopped.clone().ended(4, Timestamp(99), 0), stopped);
    }
}
