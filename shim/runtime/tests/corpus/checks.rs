//! What holds for any input whatever: shared by the fuzz targets (`fuzz/`) and by the replay of their corpus.

use berth_cgroup::{CgroupPath, Driver};
use berth_runtime::parse;

/// A check of one input; panics when something does not hold.
pub(crate) type Check = fn(&[u8]);

/// Every target by the name of its folder in `fuzz/corpus`.
pub(crate) const TARGETS: [(&str, Check); 4] =
    [("spec", spec), ("mount_options", mount_options), ("cgroup_path", cgroup_path), ("seccomp", seccomp)];

/// A config.json is refused with a reason, or accepted for good: what is written of it is accepted as the same.
pub(crate) fn spec(data: &[u8]) {
    match parse::spec(data) {
        Err(reason) => assert!(!reason.trim().is_empty(), "refused without a reason"),
        Ok(spec) => {
            let text = serde_json::to_vec(&spec).expect("what was read can be written");
            assert_eq!(parse::spec(&text).as_ref(), Ok(&spec), "read again it is another one");
        }
    }
}

/// The bits of the three access time policies, which are a number and no flags.
const ATIME: u64 = 0x70;

/// Options, one a line: none is lost, none is both set and cleared, and saying all of it twice changes nothing.
pub(crate) fn mount_options(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let options: Vec<String> = text.lines().map(str::to_owned).collect();
    let sorted = parse::mount_options(&options);
    for (set, clear) in [sorted.own, sorted.recursive] {
        assert_eq!(set & clear & !ATIME, 0, "both set and cleared");
        assert!(set & ATIME == 0 || clear & ATIME == ATIME, "the kernel refuses this policy");
    }
    let known = berth_runtime::known::mount_options();
    let foreign = options.iter().filter(|o| sorted.data.contains(o)).cloned().collect::<Vec<_>>();
    assert_eq!(sorted.data, foreign, "the file system gets its options in their order");
    assert!(sorted.data.iter().all(|o| !known.contains(&o.as_str())), "a known word went to the file system");
    let twice = parse::mount_options(&[options.clone(), options].concat());
    assert_eq!((twice.bind, twice.own, twice.recursive), (sorted.bind, sorted.own, sorted.recursive));
}

/// A path stays below the mount points, reads again as the same, and has one driver's form only.
pub(crate) fn cgroup_path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let forms = [Driver::Cgroupfs, Driver::Systemd].map(|driver| CgroupPath::parse(driver, text));
    assert!(forms.iter().filter(|form| form.is_ok()).count() < 2, "{text:?} has both drivers' form");
    let parents = [Driver::Cgroupfs, Driver::Systemd].map(|d| CgroupPath::under_parent(d, text, "id"));
    let parent = CgroupPath::of_parent(text);
    for path in forms.into_iter().chain(parents).chain([parent]).flatten() {
        let relative = path.relative();
        assert!(!relative.is_empty() && !relative.contains('\0'), "{text:?}: {relative:?}");
        for part in relative.split('/') {
            assert!(!["", ".", ".."].contains(&part), "{text:?}: {relative:?}");
            assert!(
                part.matches(':').count() != 2,
                "{text:?} makes systemd's form a directory: {relative:?}"
            );
        }
        assert_eq!(CgroupPath::recorded(&path.to_string()).as_ref(), Ok(&path), "{text:?} read again");
    }
}

/// A program is one that the kernel takes: by its own rules for classic filters.
pub(crate) fn seccomp(data: &[u8]) {
    let Ok(program) = parse::seccomp(data) else { return };
    let (instructions, rest) = program.bytes().as_chunks::<8>();
    assert!(rest.is_empty() && !instructions.is_empty() && instructions.len() <= 4096);
    for (at, bytes) in instructions.iter().enumerate() {
        let k = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        let left = instructions.len() - at - 1;
        match u16::from_ne_bytes([bytes[0], bytes[1]]) {
            0x20 => assert!(k < 64 && k.is_multiple_of(4), "a load of {k}"),
            0x54 | 0x06 => {}
            0x05 => assert!(k < left, "a jump out of the program"),
            0x15 | 0x25 | 0x35 => {
                assert!(usize::from(bytes[2].max(bytes[3])) < left, "a jump out of the program");
            }
            other => panic!("operation {other:#x}"),
        }
    }
    let last = instructions[instructions.len() - 1];
    assert_eq!(u16::from_ne_bytes([last[0], last[1]]), 0x06, "the program runs off its end");
    assert_eq!(parse::seccomp(data), Ok(program), "compiled again it is another one");
}
