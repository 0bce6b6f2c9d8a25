//! The inventory of fault points, and how the environment arms them where a flag allows it.

use berth_core::fault::{ArmError, Point, arm_text};

/// Every crate's and module's list.
const LISTS: &[&[&Point]] = &[berth_network::faults::FAULTS, berth_store::FAULTS, crate::pod::faults::FAULTS];

/// Every fault point, sorted by name.
#[must_use]
pub fn inventory() -> Vec<&'static Point> {
    let mut points: Vec<&'static Point> = LISTS.iter().flat_map(|list| list.iter().copied()).collect();
    points.sort_by_key(|point| point.name());
    points
}

/// The inventory as lines for people and scripts: name, tab, what lies around it.
#[must_use]
pub fn text() -> String {
    inventory().iter().map(|point| format!("{}\t{}\n", point.name(), point.what())).collect()
}

/// Arms what BERTH_FAULTS asks for.
///
/// # Errors
/// It names no point or cannot be read.
pub fn arm_from_environment() -> Result<(), ArmError> {
    match std::env::var("BERTH_FAULTS") {
        Ok(wish) => {
            tracing::warn!(%wish, "fault points are armed: this daemon fails on purpose");
            arm_text(&wish, &inventory())
        }
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_have_an_area() {
        let points = inventory();
        assert!(points.windows(2).all(|pair| pair[0].name() < pair[1].name()), "{points:?}");
        assert!(points.iter().all(|point| point.name().contains('.') && !point.what().is_empty()));
    }
}
