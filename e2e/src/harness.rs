//! The runner of the end-to-end tests: filters, shards, time limits, true skips, and the leak check after each.

mod bed;
mod context;
mod report;
mod runner;

pub use bed::{Bed, Pod, REGISTRY, text};
pub use context::Context;
pub use runner::main;

use futures_util::future::BoxFuture;
use std::time::Duration;

/// A test's body.
pub type Body = fn(Context) -> BoxFuture<'static, anyhow::Result<()>>;

/// One test.
#[derive(Clone, Copy)]
pub struct Test {
    /// `module::function`.
    pub name: &'static str,
    /// What it does.
    pub body: Body,
    /// What it may take.
    pub limit: Duration,
    /// Only runs when everything runs (`cargo xtask test --all`).
    pub long: bool,
}

impl Test {
    /// A test with the usual limit.
    pub const fn new(name: &'static str, body: Body) -> Self {
        Self { name, body, limit: Duration::from_secs(120), long: false }
    }
}

/// Lists a module's tests: `tests![one, two]`; `; minutes 15 [three]` for those that take so long, `; long [four]` for
/// those of the long run. A function that is not listed is dead code, which the lints refuse.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)? $(; minutes $limit:literal [$($slow:ident),+])? $(; long [$($longer:ident),+])?) => {
        /// The tests of this module.
        pub(crate) fn tests() -> Vec<$crate::harness::Test> {
            vec![
                $($crate::harness::Test::new(
                    concat!(module_path!(), "::", stringify!($name)),
                    |context| Box::pin($name(context)),
                ),)*
                $($($crate::harness::Test {
                    limit: std::time::Duration::from_secs(60 * $limit),
                    ..$crate::harness::Test::new(
                        concat!(module_path!(), "::", stringify!($slow)),
                        |context| Box::pin($slow(context)),
                    )
                },)+)?
                $($($crate::harness::Test {
                    long: true,
                    limit: std::time::Duration::from_secs(3600),
                    ..$crate::harness::Test::new(
                        concat!(module_path!(), "::", stringify!($longer)),
                        |context| Box::pin($longer(context)),
                    )
                },)+)?
            ]
        }
    };
}

/// Fails the test with a text unless a condition holds; unlike `assert!` it lets the nodes be tidied up in order.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            anyhow::bail!("{} (line {}): {}", file!(), line!(), format!($($text)+));
        }
    };
}
