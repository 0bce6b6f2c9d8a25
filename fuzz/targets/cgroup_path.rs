//! cgroupsPath and cgroup_parent in both drivers' forms.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| berth_fuzz::check("cgroup_path", data));
