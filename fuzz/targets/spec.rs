//! config.json, read and checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| berth_fuzz::check("spec", data));
