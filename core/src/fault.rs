//! Fault points: named places where a test may make a step fail, stall or end the process.
//!
//! They are compiled into every build and cost one relaxed load. A crate declares its points with
//! [`fault_points!`](crate::fault_points), which also makes the list `FAULTS`, so that a new point cannot be
//! missing from the inventory. Nothing is armed unless the daemon was started to allow it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One named place.
#[derive(Debug)]
pub struct Point {
    name: &'static str,
    what: &'static str,
    armed: AtomicU32,
    passes: AtomicU32,
    hits: AtomicU32,
    delay_ms: AtomicU64,
}

/// What an armed point does to whoever passes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Off,
    /// The step fails with [`Injected`].
    Fail,
    /// The step waits first.
    Delay(Duration),
    /// The process ends at once, as if killed.
    Exit,
    /// The first to come waits until the point is armed anew (or [`HOLD_MAX`] is over); others pass.
    Hold,
    /// Only counted.
    Note,
}

/// The longest that anything is held.
pub const HOLD_MAX: Duration = Duration::from_secs(30);

/// The failure an armed point gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fault point {0} is armed")]
pub struct Injected(pub &'static str);

impl crate::Classified for Injected {
    fn class(&self) -> crate::ErrorClass {
        crate::ErrorClass::Internal
    }
}

const OFF: u32 = 0;
const FAIL: u32 = 1;
const DELAY: u32 = 2;
const EXIT: u32 = 3;
const HOLD: u32 = 4;
const HELD: u32 = 5;
const NOTE: u32 = 6;

impl Point {
    /// A point, not armed.
    #[must_use]
    pub const fn new(name: &'static str, what: &'static str) -> Self {
        let (armed, passes, hits) = (AtomicU32::new(OFF), AtomicU32::new(0), AtomicU32::new(0));
        Self { name, what, armed, passes, hits, delay_ms: AtomicU64::new(0) }
    }

    /// Its name, `area.step`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What stands before and after it.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// How often it acted since it was last armed.
    #[must_use]
    pub fn hits(&self) -> u32 {
        self.hits.load(Relaxed)
    }

    /// Arms (or disarms) the point for the next `times` passes; 0 means until disarmed.
    pub fn arm(&self, action: Action, times: u32) {
        let word = match action {
            Action::Off => OFF,
            Action::Fail => FAIL,
            Action::Delay(time) => {
                self.delay_ms.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Relaxed);
                DELAY
            }
            Action::Exit => EXIT,
            Action::Hold => HOLD,
            Action::Note => NOTE,
        };
        self.hits.store(0, Relaxed);
        self.passes.store(times, Relaxed);
        self.armed.store(word, Relaxed);
    }

    /// Passes the point.
    ///
    /// # Errors
    /// The point is armed to fail.
    #[inline]
    pub fn pass(&self) -> Result<(), Injected> {
        match self.armed.load(Relaxed) {
            OFF => Ok(()),
            word => self.act(word),
        }
    }

    #[cold]
    fn act(&self, word: u32) -> Result<(), Injected> {
        if word == HELD || (word == HOLD && !self.first()) {
            return Ok(());
        }
        self.hits.fetch_add(1, Relaxed);
        if word != HOLD && self.passes.load(Relaxed) > 0 && self.passes.fetch_sub(1, Relaxed) == 1 {
            self.armed.store(OFF, Relaxed);
        }
        match word {
            DELAY => {
                std::thread::sleep(Duration::from_millis(self.delay_ms.load(Relaxed)));
                Ok(())
            }
            HOLD => {
                self.wait();
                Ok(())
            }
            NOTE => Ok(()),
            EXIT => std::process::abort(),
            _ => Err(Injected(self.name)),
        }
    }

    /// Whether this is the one to be held.
    fn first(&self) -> bool {
        self.armed.compare_exchange(HOLD, HELD, Relaxed, Relaxed).is_ok()
    }

    fn wait(&self) {
        let begun = std::time::Instant::now();
        while self.armed.load(Relaxed) == HELD && begun.elapsed() < HOLD_MAX {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Why a text does not arm a point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArmError {
    /// Not `name=[N*]fail|exit|hold|note|off|delay:MS`.
    #[error("{0:?} arms no fault point: expected name=[N*]fail|exit|hold|note|off|delay:MS")]
    Malformed(String),
    /// No such point.
    #[error("no fault point is called {0:?}: see `berthd faults`")]
    Unknown(String),
}

/// Arms points by text: `image.commit=fail,store.write=2*delay:50`.
///
/// # Errors
/// A part that cannot be read or names no point; parts before it are armed.
pub fn arm_text(text: &str, points: &[&'static Point]) -> Result<(), ArmError> {
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let malformed = || ArmError::Malformed(part.to_owned());
        let (name, action) = part.split_once('=').ok_or_else(malformed)?;
        let (times, action) = match action.split_once('*') {
            Some((times, action)) => (times.parse().map_err(|_| malformed())?, action),
            None => (0, action),
        };
        let action = parse_action(action).ok_or_else(malformed)?;
        let point = points.iter().find(|point| point.name == name);
        point.ok_or_else(|| ArmError::Unknown(name.to_owned()))?.arm(action, times);
    }
    Ok(())
}

fn parse_action(text: &str) -> Option<Action> {
    match text {
        "off" => Some(Action::Off),
        "fail" => Some(Action::Fail),
        "exit" => Some(Action::Exit),
        "hold" => Some(Action::Hold),
        "note" => Some(Action::Note),
        _ => {
            let ms = text.strip_prefix("delay:")?.parse().ok()?;
            Some(Action::Delay(Duration::from_millis(ms)))
        }
    }
}

/// Declares a crate's fault points and the list `FAULTS` of all of them.
#[macro_export]
macro_rules! fault_points {
    ($($ident:ident = $name:literal, $what:literal;)*) => {
        $(
            #[doc = $what]
            #[allow(unreachable_pub, reason = "a private module may declare points for its crate's own list")]
            pub static $ident: $crate::fault::Point = $crate::fault::Point::new($name, $what);
        )*
        /// Every fault point declared here.
        #[allow(unreachable_pub, reason = "a private module may declare points for its crate's own list")]
        pub static FAULTS: &[&$crate::fault::Point] = &[$(&$ident),*];
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fault_points! {
        ONE = "test.one", "between the first and the second step";
        TWO = "test.two", "after the second step";
    }

    #[test]
    fn points_fail_only_while_armed_and_only_so_often() {
        assert_eq!(FAULTS.len(), 2);
        assert_eq!(ONE.pass(), Ok(()));
        arm_text("test.one=2*fail, test.two=delay:1", FAULTS).unwrap();
        assert_eq!(ONE.pass(), Err(Injected("test.one")));
        assert_eq!(ONE.pass(), Err(Injected("test.one")));
        assert_eq!(ONE.pass(), Ok(()));
        assert_eq!(TWO.pass(), Ok(()));
        arm_text("test.two=fail", FAULTS).unwrap();
        assert!(TWO.pass().is_err() && TWO.pass().is_err());
        arm_text("test.two=off", FAULTS).unwrap();
        assert_eq!(TWO.pass(), Ok(()));
    }

    #[test]
    fn one_is_held_until_released_and_passes_are_counted() {
        static HOLDING: Point = Point::new("test.hold", "alone, so that tests do not meet");
        HOLDING.arm(Action::Hold, 0);
        let held = std::thread::spawn(|| HOLDING.pass());
        while HOLDING.hits() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(HOLDING.pass(), Ok(()));
        assert!(!held.is_finished() && HOLDING.hits() == 1);
        HOLDING.arm(Action::Note, 0);
        assert_eq!(held.join().unwrap(), Ok(()));
        assert_eq!((HOLDING.pass(), HOLDING.hits()), (Ok(()), 1));
    }

    #[test]
    fn wrong_texts_are_refused() {
        for bad in ["test.one", "test.one=boom", "test.one=x*fail", "test.one=delay:x"] {
            assert!(matches!(arm_text(bad, FAULTS), Err(ArmError::Malformed(_))), "{bad}");
        }
        assert!(matches!(arm_text("test.three=fail", FAULTS), Err(ArmError::Unknown(_))));
    }
}
