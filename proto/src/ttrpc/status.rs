//! How a call ended when it did not succeed: gRPC's codes and a text.

use std::fmt;

use super::message::RpcStatus;

/// gRPC's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The caller gave up.
    Cancelled = 1,
    /// Something without a better name; also every number this list does not know.
    Unknown = 2,
    /// The request makes no sense whatever the state.
    InvalidArgument = 3,
    /// The time given was not enough.
    DeadlineExceeded = 4,
    /// No such object.
    NotFound = 5,
    /// The object is there already.
    AlreadyExists = 6,
    /// Not allowed.
    PermissionDenied = 7,
    /// Some limit is reached.
    ResourceExhausted = 8,
    /// The request does not fit the object's present state.
    FailedPrecondition = 9,
    /// Overtaken by another call.
    Aborted = 10,
    /// Beyond the end.
    OutOfRange = 11,
    /// No such call.
    Unimplemented = 12,
    /// A fault of the server itself.
    Internal = 13,
    /// Not now; try again.
    Unavailable = 14,
    /// Data is gone or broken.
    DataLoss = 15,
    /// Who are you?
    Unauthenticated = 16,
}

impl Code {
    /// The code of a number; unknown numbers are `Unknown`, as gRPC asks.
    pub fn from_number(number: i32) -> Code {
        const ALL: [Code; 17] = [
            Code::Ok,
            Code::Cancelled,
            Code::Unknown,
            Code::InvalidArgument,
            Code::DeadlineExceeded,
            Code::NotFound,
            Code::AlreadyExists,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::FailedPrecondition,
            Code::Aborted,
            Code::OutOfRange,
            Code::Unimplemented,
            Code::Internal,
            Code::Unavailable,
            Code::DataLoss,
            Code::Unauthenticated,
        ];
        usize::try_from(number).ok().and_then(|at| ALL.get(at)).copied().unwrap_or(Code::Unknown)
    }

    /// The number on the wire.
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// A failed call, as the server words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The class of the failure.
    pub code: Code,
    /// What happened, for people.
    pub message: String,
}

impl Status {
    /// A status of any class.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

    /// The request makes no sense.
    pub fn invalid(message: impl Into<String>) -> Status {
        Status::new(Code::InvalidArgument, message)
    }

    /// No such object.
    pub fn not_found(message: impl Into<String>) -> Status {
        Status::new(Code::NotFound, message)
    }

    /// The object is there already.
    pub fn already_exists(message: impl Into<String>) -> Status {
        Status::new(Code::AlreadyExists, message)
    }

    /// The object is not in the state that the call needs.
    pub fn precondition(message: impl Into<String>) -> Status {
        Status::new(Code::FailedPrecondition, message)
    }

    /// A fault of the server itself.
    pub fn internal(message: impl Into<String>) -> Status {
        Status::new(Code::Internal, message)
    }

    /// No such call.
    pub fn unimplemented(message: impl Into<String>) -> Status {
        Status::new(Code::Unimplemented, message)
    }

    pub(super) fn from_wire(wire: RpcStatus) -> Status {
        Status { code: Code::from_number(wire.code), message: wire.message }
    }

    pub(super) fn to_wire(&self) -> RpcStatus {
        RpcStatus { code: self.code.number(), message: self.message.clone() }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_wire() {
        for number in 0..17 {
            assert_eq!(Code::from_number(number).number(), number);
        }
        assert_eq!(Code::from_number(17), Code::Unknown);
        assert_eq!(Code::from_number(-1), Code::Unknown);
    }
}
