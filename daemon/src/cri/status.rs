//! The one table from error class to gRPC code.

use berth_core::{Error, ErrorClass};
use tonic::{Code, Status};

/// Longest text that is sent. It travels in a header, and clients refuse large ones.
const TEXT_MAX: usize = 4096;

/// The status that a failure is answered with.
#[must_use]
pub fn of(error: &Error) -> Status {
    Status::new(code(error.class()), cut(error.to_string()))
}

fn code(class: ErrorClass) -> Code {
    match class {
        ErrorClass::InvalidArgument => Code::InvalidArgument,
        ErrorClass::NotFound => Code::NotFound,
        ErrorClass::AlreadyExists => Code::AlreadyExists,
        ErrorClass::FailedPrecondition => Code::FailedPrecondition,
        ErrorClass::ResourceExhausted => Code::ResourceExhausted,
        ErrorClass::Unavailable => Code::Unavailable,
        ErrorClass::DeadlineExceeded => Code::DeadlineExceeded,
        ErrorClass::Cancelled => Code::Cancelled,
        ErrorClass::Aborted => Code::Aborted,
        ErrorClass::Unauthenticated => Code::Unauthenticated,
        ErrorClass::PermissionDenied => Code::PermissionDenied,
        ErrorClass::DataLoss => Code::DataLoss,
        ErrorClass::Unimplemented => Code::Unimplemented,
        ErrorClass::Internal => Code::Internal,
    }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let mut end = TEXT_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::KubeletWord;
    use std::collections::HashSet;

    #[test]
    fn every_class_has_a_code_of_its_own() {
        let codes: HashSet<i32> = ErrorClass::ALL.iter().map(|class| code(*class) as i32).collect();
        assert_eq!(codes.len(), ErrorClass::ALL.len());
        assert!(!codes.contains(&(Code::Ok as i32)) && !codes.contains(&(Code::Unknown as i32)));
    }

    #[test]
    fn the_kubelets_word_comes_first_and_long_texts_are_cut() {
        let error = Error::new(ErrorClass::Unavailable, "dial").with_word(KubeletWord::RegistryUnavailable);
        assert_eq!(of(&error).message(), "RegistryUnavailable: dial");
        let long = of(&Error::internal("é".repeat(4000)));
        assert!(long.message().len() <= TEXT_MAX + 4 && long.message().ends_with('…'));
    }
}
