//! Stop signals: CRI's numbers are its own, the kernel's are others.

use berth_core::{Error, Result};
use berth_proto::cri::Signal;

/// The kernel's number of each of CRI's signals, from its 1 on.
const NUMBERS: [u32; 65] = [
    6, 14, 7, 17, 17, 18, 8, 1, 4, 2, 29, 6, 9, 13, 29, 27, 30, 3, 11, 16, 19, 31, 15, 5, 20, 21, 22, 23, 10,
    12, 26, 28, 24, 25, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54,
    55, 56, 57, 58, 59, 60, 61, 62, 63, 64,
];

/// The kernel's number; none for the runtime's default.
pub(super) fn from_wire(signal: i32) -> Result<Option<u32>> {
    let index = usize::try_from(signal).unwrap_or(usize::MAX);
    match index.checked_sub(1) {
        None => Ok(None),
        Some(index) => match NUMBERS.get(index) {
            Some(number) => Ok(Some(*number)),
            None => Err(Error::invalid(format!("config.stop_signal: {signal} is unknown"))),
        },
    }
}

/// CRI's number. Of two names for one signal, the first.
pub(super) fn to_wire(number: u32) -> Signal {
    let index = NUMBERS.iter().position(|known| *known == number);
    let signal = index
        .and_then(|index| i32::try_from(index + 1).ok())
        .and_then(|number| Signal::try_from(number).ok());
    signal.unwrap_or(Signal::RuntimeDefault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_go_there_and_back() {
        for (signal, number) in [
            (Signal::Sigterm, 15),
            (Signal::Sigkill, 9),
            (Signal::Sigusr1, 10),
            (Signal::Sigrtmin, 34),
            (Signal::Sigrtminplus3, 37),
            (Signal::Sigrtmax, 64),
            (Signal::Sigrtmaxminus14, 50),
        ] {
            assert_eq!(from_wire(signal as i32).unwrap(), Some(number), "{signal:?}");
            assert_eq!(to_wire(number), signal, "{number}");
        }
        assert_eq!(from_wire(0).unwrap(), None);
        assert!(from_wire(66).is_err() && from_wire(-1).is_err());
        assert_eq!(to_wire(99), Signal::RuntimeDefault);
    }
}
