//! What random churn needs: chance that can be repeated, and a line through measurements.

mod chance;
mod slope;

pub use chance::Chance;
pub use slope::{Line, fit};
