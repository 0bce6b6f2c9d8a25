//! The options of a mount, one a line.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| berth_fuzz::check("mount_options", data));
