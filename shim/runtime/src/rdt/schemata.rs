//! Whether a class of service that is there already is what a configuration says.

/// Compares lines such as `L3:0=7f0;1=1f` with what the kernel shows. It writes leading zeros and caches that were not named,
/// and rounds bandwidths up to its `step`.
///
/// # Errors
/// What differs.
pub(super) fn compare(now: &str, wanted: &[&str], step: u64) -> Result<(), String> {
    for line in wanted {
        let (resource, _) = line.split_once(':').unwrap_or((line, ""));
        let resource = resource.trim();
        let shown = now.lines().find(|shown| shown.split(':').next().map(str::trim) == Some(resource));
        let differs = || format!("shows {:?} where {line:?} is asked for", shown.unwrap_or_default().trim());
        let shown: Vec<(u64, u64)> = shown.and_then(|shown| caches(shown, 1)).ok_or_else(differs)?;
        let asked = caches(line, step).ok_or_else(differs)?;
        if !asked.iter().all(|one| shown.contains(one)) {
            return Err(differs());
        }
    }
    Ok(())
}

/// The caches of a line with their values; none where it is not one.
fn caches(line: &str, step: u64) -> Option<Vec<(u64, u64)>> {
    let (resource, list) = line.split_once(':')?;
    let bandwidth = resource.trim() == "MB";
    let one = |part: &str| {
        let (cache, value) = part.split_once('=')?;
        let value = match (bandwidth, value.trim()) {
            (true, value) => value.parse::<u64>().ok()?.checked_next_multiple_of(step.max(1))?,
            (false, value) => u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()?,
        };
        Some((cache.trim().parse().ok()?, value))
    };
    list.split(';').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::compare;

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
            assert_eq!(compare(now, wanted, step).is_ok(), same, "{wanted:?} in steps of {step}");
        }
    }
}
