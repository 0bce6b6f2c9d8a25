//! Which attack answers which published hole.

use anyhow::Result;
use berth_e2e::check;
use berth_e2e::harness::Test;

/// The holes: of runc and what shares its code, of youki, and of containerd, CRI-O and others where the runtime could be at fault.
const HOLES: &str = "
    2016-9962 2019-5736 2019-16884 2019-19921 2021-30465 2021-43784 2022-24769 2022-27649 2022-27650 2022-27651 2022-27652
    2022-29162 2023-25809 2023-27561 2023-28642 2024-21626 2024-45310 2025-31133 2025-52565 2025-52881 2026-41579
    2025-27612 2025-54867 2025-62161 2025-62596
    2021-21334 2022-23648 2023-25173 2022-2989 2022-2990 2022-2995 GHSA-7ww5-4wqc-m92c 2024-40635 2025-47291 2026-46680 2026-47262
    2022-0532 2022-0811 2022-4318 2023-6476 2024-3154 2024-5154 2024-9341 2024-9407 2024-9676 2025-4437 2026-15809
";

const TABLE: &[(&str, &[&str])] = &[
    ("binary::the_runtime_as_entrypoint", &["2019-5736"]),
    ("binary::a_joining_process_from_inside", &["2019-5736"]),
    ("binary::a_script_that_names_the_runtime", &["2019-5736"]),
    ("cgroups::read_only_without_a_namespace", &["2023-25809"]),
    ("cgroups::a_user_namespace_stays_in_its_group", &["2025-47291"]),
    ("cgroups::annotations_change_nothing", &["2023-6476", "2024-3154"]),
    ("console::a_link_in_its_place", &["2025-52565"]),
    ("console::swapped_while_it_is_made", &["2025-52565"]),
    ("descriptors::nothing_leaks", &["2024-21626"]),
    ("descriptors::a_working_directory_by_number", &["2024-21626"]),
    ("descriptors::a_process_that_joins", &["2016-9962"]),
    (
        "identity::inheritable_capabilities",
        &["2022-29162", "2022-24769", "2022-27649", "2022-27650", "2022-27651", "2022-27652", "2025-27612"],
    ),
    ("identity::groups_are_those_asked_for", &["2023-25173", "2022-2989", "2022-2990", "2022-2995"]),
    ("identity::ids_that_wrap", &["2024-40635"]),
    ("identity::numbers_are_no_names", &["2024-40635", "2026-46680"]),
    ("identity::environments_are_apart", &["2021-21334"]),
    ("identity::a_home_with_a_line_end", &["2022-4318", "2026-15809"]),
    ("identity::files_without_end", &["2026-47262", "2025-4437", "2024-9676"]),
    ("masks::a_null_device_of_the_images", &["2025-31133", "2025-62161"]),
    ("masks::proc_swapped_while_it_is_masked", &["2019-19921", "2023-27561", "2025-31133", "2025-62161"]),
    ("masks::energy_counters", &["GHSA-7ww5-4wqc-m92c"]),
    ("mounts::targets_swapped", &["2021-30465", "2024-45310"]),
    ("mounts::a_dev_that_leads_away", &["2026-41579"]),
    ("mounts::a_dev_that_leads_into_a_volume", &["2026-41579"]),
    ("mounts::files_behind_links", &["2022-23648", "2024-5154", "2024-9341", "2024-9407"]),
    ("mounts::a_device_swapped", &["2024-45310"]),
    (
        "procfs::links_and_volumes_in_its_place",
        &["2019-16884", "2019-19921", "2023-27561", "2023-28642", "2025-54867"],
    ),
    ("procfs::writes_that_are_led_away", &["2025-52881", "2025-62596"]),
    ("sizes::more_than_fits", &["2021-43784"]),
    ("sysctl::the_hosts_own", &["2022-0532"]),
    ("sysctl::values_that_are_two", &["2022-0811"]),
];

/// Every hole has an attack, every attack of the table is run, and every one that is run is in the table.
pub(super) fn complete(attacks: &[Test]) -> Result<()> {
    let answered = |hole: &str| TABLE.iter().any(|(_, holes)| holes.contains(&hole));
    let missing: Vec<&str> = HOLES.split_whitespace().filter(|hole| !answered(hole)).collect();
    check!(missing.is_empty(), "no attack for {missing:?}");
    let listed = |hole: &&&str| HOLES.split_whitespace().any(|known| known == **hole);
    let strange: Vec<_> =
        TABLE.iter().flat_map(|(_, holes)| holes.iter()).filter(|hole| !listed(hole)).collect();
    check!(strange.is_empty(), "not in the list of holes: {strange:?}");
    let run = |name: &str| attacks.iter().any(|test| test.name.ends_with(&format!("::{name}")));
    let lost: Vec<_> = TABLE.iter().filter(|(name, _)| !run(name)).collect();
    check!(lost.is_empty(), "never run: {lost:?}");
    let known = |test: &&Test| TABLE.iter().any(|(name, _)| test.name.ends_with(&format!("::{name}")));
    let unnamed: Vec<_> = attacks.iter().filter(|test| !known(test)).map(|test| test.name).collect();
    check!(unnamed.is_empty(), "answer no hole: {unnamed:?}");
    Ok(())
}
