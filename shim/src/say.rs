//! The shim's own log: lines on standard error, which the daemon has opened as a file.

/// Writes one line. Failures are nobody's business: there is nowhere to tell them.
#[macro_export]
macro_rules! say {
    ($($word:tt)*) => {
        $crate::say::line(format_args!($($word)*))
    };
}

/// One line with the process id before it, in one write.
pub(crate) fn line(words: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let text = format!("berth-shim[{}]: {words}\n", std::process::id());
    let _nowhere_to_tell = std::io::stderr().write_all(text.as_bytes());
}
