//! Error classes: what kind of failure it is, told once, so that one table can turn it into a gRPC code.
//!
//! Modules have small error enums of their own and say their class through [`Classified`]; [`Error`] is what a
//! service verb hands to the wire.

use std::error::Error as StdError;
use std::fmt;

/// The kind of a failure. The daemon maps it to a gRPC code in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The request itself is wrong, whatever the state of the node.
    InvalidArgument,
    /// The object named does not exist.
    NotFound,
    /// The object exists already and differs from what was asked for.
    AlreadyExists,
    /// The object exists but its state, or the node's, does not allow the act.
    FailedPrecondition,
    /// A quota, table or disk is full.
    ResourceExhausted,
    /// A peer (registry, plugin, shim) cannot be reached now; a retry may help.
    Unavailable,
    /// The act took longer than it was allowed to.
    DeadlineExceeded,
    /// The act was given up on request.
    Cancelled,
    /// Another act on the same object came in between.
    Aborted,
    /// Credentials are missing or refused.
    Unauthenticated,
    /// The caller is known but not allowed.
    PermissionDenied,
    /// Stored data is damaged.
    DataLoss,
    /// The call or option is not built.
    Unimplemented,
    /// Anything else: a fault of ours or of the kernel.
    Internal,
}

impl ErrorClass {
    /// Every class, for tables and tests.
    pub const ALL: [Self; 14] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::AlreadyExists,
        Self::FailedPrecondition,
        Self::ResourceExhausted,
        Self::Unavailable,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Aborted,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::DataLoss,
        Self::Unimplemented,
        Self::Internal,
    ];
}

/// Words that the kubelet searches for in an error's text, to show them as the reason of a pod's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KubeletWord {
    /// The registry could not be reached.
    RegistryUnavailable,
    /// A signature policy refused the image.
    SignatureValidationFailed,
    /// Recursive read-only mounts were asked for and are not supported.
    RroUnsupported,
    /// An image volume could not be mounted.
    ImageVolumeMountFailed,
}

impl KubeletWord {
    /// The word as the kubelet spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RegistryUnavailable => "RegistryUnavailable",
            Self::SignatureValidationFailed => "SignatureValidationFailed",
            Self::RroUnsupported => "RROUnsupported",
            Self::ImageVolumeMountFailed => "ImageVolumeMountFailed",
        }
    }
}

/// Implemented by each module's error enum: which class its variants belong to.
pub trait Classified: StdError {
    /// The class of this failure.
    fn class(&self) -> ErrorClass;
    /// The kubelet's own word for it, if there is one.
    fn word(&self) -> Option<KubeletWord> {
        None
    }
}

/// A failure on its way to the caller: class, text, and the kubelet's word where one fits.
#[derive(Debug)]
pub struct Error {
    class: ErrorClass,
    word: Option<KubeletWord>,
    message: String,
}

/// What service verbs return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failure of `class` with a text that names the object and what to do about it.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, word: None, message: message.into() }
    }

    /// The request is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::InvalidArgument, message)
    }

    /// The object named does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::NotFound, message)
    }

    /// The state does not allow the act.
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::FailedPrecondition, message)
    }

    /// A fault of ours or of the kernel.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Internal, message)
    }

    /// Adds the kubelet's word for this failure.
    #[must_use]
    pub fn with_word(mut self, word: KubeletWord) -> Self {
        self.word = Some(word);
        self
    }

    /// Puts what was being done before the text: `pull alpine: …`.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// The class.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The kubelet's word, if any.
    #[must_use]
    pub fn word(&self) -> Option<KubeletWord> {
        self.word
    }

    /// The text without the kubelet's word.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.word {
            Some(word) => write!(f, "{}: {}", word.as_str(), self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl StdError for Error {}

impl<E: Classified> From<E> for Error {
    fn from(error: E) -> Self {
        Self { class: error.class(), word: error.word(), message: chain(&error) }
    }
}

/// An error and everything below it in one line. A cause whose text the level above already contains is left out.
#[must_use]
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        below = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("open layer {path}")]
    struct Open {
        path: &'static str,
        source: std::io::Error,
    }

    impl Classified for Open {
        fn class(&self) -> ErrorClass {
            ErrorClass::DataLoss
        }
        fn word(&self) -> Option<KubeletWord> {
            Some(KubeletWord::ImageVolumeMountFailed)
        }
    }

    fn open() -> Result<()> {
        let source = std::io::Error::from_raw_os_error(2);
        Err(Open { path: "/layers/a", source })?;
        Ok(())
    }

    #[test]
    fn a_module_error_keeps_class_word_and_causes() {
        let error = open().unwrap_err().context("create c1");
        assert_eq!(error.class(), ErrorClass::DataLoss);
        assert_eq!(
            error.to_string(),
            "ImageVolumeMountFailed: create c1: open layer /layers/a: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_cause_already_in_the_text_is_not_repeated() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: {0}")]
        struct Outer(#[source] std::io::Error);
        let text = chain(&Outer(std::io::Error::other("inner")));
        assert_eq!(text, "outer: inner");
    }
}
