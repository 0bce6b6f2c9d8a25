//! Whether a class of service that is there already is what a configuration says.

/// Whether a line such as `L3:0=7f0;1=1f` holds in what the kernel shows. It writes leading zeros and caches that were not named,
/// and rounds bandwidths up to its `step`.
#[inline(never)]
pub(super) fn has(now: &str, wanted: &str, step: u64) -> bool {
    let resource = |line: &str| line.split(':').next().map(|name| name.trim().to_owned());
    let shown = now.lines().find(|shown| resource(shown) == resource(wanted));
    match (shown.and_then(|shown| caches(shown, 1)), caches(wanted, step)) {
        (Some(shown), Some(asked)) => asked.iter().all(|one| shown.contains(one)),
        _ => false,
    }
}

/// The caches of a line with their values; none where it is not one.
fn caches(line: &str, step: u64) -> Option<Vec<(u64, u64)>> {
    let (resource, list) = line.split_once(':')?;
    let bandwidth = resource.trim() == "MB";
    let one = |part: &str| {
        let (cache, value) = part.split_once('=')?;
        let (radix, step) = if bandwidth { (10, step.max(1)) } else { (16, 1) };
        let value = u64::from_str_radix(value.trim(), radix).ok()?.checked_next_multiple_of(step)?;
        Some((cache.trim().parse().ok()?, value))
    };
    list.split(';').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn the_same_can_be_written_in_more_than_one_way() {
        let now = "    MB:0= 30;1=100\n    L3:0=00f;1=7ff\n";
        for (wanted, step, same) in [
            (&["L3:0=f"][..], 1, true),
            (&["L3:1=7FF;0=f", "MB:0=30"], 10, true),
            (&["MB:0=25"], 10, true),
            (&["MB:0=25"], 1, false),
            (&["MB:0=40"], 10, false),
            (&["L3:0=ff"], 1, false),
            (&["L3:2=f"], 1, false),
            (&["L2:0=f"], 1, false),
            (&["L3"], 1, false),
            (&["L3:0"], 1, false),
            (&["L3:0=x"], 1, false),
            (&["MB:0=18446744073709551615"], 10, false),
        ] {
            assert_eq!(wanted.iter().all(|line| has(now, line, step)), same, "{wanted:?} in steps of {step}");
        }
    }
}
