//! Every published hole of low-level runtimes, and those above them that lie in what the runtime does: the attack is made, racing
//! where the hole was a race, and fails. Each also shows that its trap is real: done without protection, it springs.

mod binary;
mod cgroups;
mod console;
mod descriptors;
mod identity;
mod masks;
mod mounts;
mod procfs;
mod race;
mod sizes;
mod sysctl;
mod table;

use berth_e2e::harness::{Context, Test};
use std::time::Duration;

/// Attacks are plain functions that wait for processes, so each gets a thread.
macro_rules! attacks {
    ($($family:ident [$($name:ident),+ $(,)?])+) => {
        fn attacks() -> Vec<Test> {
            vec![$($(Test {
                limit: Duration::from_secs(600),
                ..Test::new(concat!(module_path!(), "::", stringify!($family), "::", stringify!($name)), |_| {
                    Box::pin(async { tokio::task::spawn_blocking($family::$name).await? })
                })
            },)+)+]
        }
    };
}

attacks! {
    binary [the_runtime_as_entrypoint, a_joining_process_from_inside, a_script_that_names_the_runtime]
    cgroups [read_only_without_a_namespace, a_user_namespace_stays_in_its_group, annotations_change_nothing]
    console [a_link_in_its_place, swapped_while_it_is_made]
    descriptors [nothing_leaks, a_working_directory_by_number, a_process_that_joins]
    identity [
        inheritable_capabilities, groups_are_those_asked_for, ids_that_wrap, numbers_are_no_names, environments_are_apart,
        a_home_with_a_line_end, files_without_end,
    ]
    masks [a_null_device_of_the_images, proc_swapped_while_it_is_masked, energy_counters]
    mounts [targets_swapped, a_dev_that_leads_away, a_dev_that_leads_into_a_volume, files_behind_links, a_device_swapped]
    procfs [links_and_volumes_in_its_place, writes_that_are_led_away]
    sizes [more_than_fits]
    sysctl [the_hosts_own, values_that_are_two]
}

/// The tests of this module.
pub(crate) fn tests() -> Vec<Test> {
    let complete = Test::new(concat!(module_path!(), "::table_is_complete"), |_: Context| {
        Box::pin(async { table::complete(&attacks()) })
    });
    attacks().into_iter().chain([complete]).collect()
}
