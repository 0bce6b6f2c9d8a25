//! The tar format itself: sizes, extended headers, long names, holes, ends.

use super::{apply, apply_bytes};
use crate::unpack::test_tar::{Head, Tar, seal};

#[test]
fn pax_sizes_decide_where_the_next_header_is() {
    let inner = Tar::new().file("smuggled", "evil").0;
    // The header says 0 bytes, the PAX record says all: Go takes the record, and so the inner file is data.
    let length = inner.len().to_string();
    let tar = Tar::new().pax(&[("size", length.as_bytes())]).head(&Head::new("outer", b'0')).raw(&inner);
    let out = apply(tar.file("after", "x"));
    out.good();
    assert!(!out.exists("smuggled"));
    assert_eq!(out.meta("outer").len(), inner.len() as u64);
    assert_eq!(out.read("after"), "x");
    // And the other way round: a size in the header of something that has no data is no data.
    let tar = Tar::new().head(&Head::new("link", b'2').link("x").size(512)).file("after", "y");
    let out = apply(tar);
    out.good();
    assert_eq!(out.read("after"), "y");
}

#[test]
fn malformed_headers_end_the_layer() {
    let bad: [(&str, &[u8], &str); 5] = [
        ("size", b"-1", "size"),
        ("size", b"1x", "size"),
        ("uid", b"a", "uid"),
        ("mtime", b"soon", "mtime"),
        ("path", b"a\0b", "zero"),
    ];
    for (key, value, word) in bad {
        assert!(apply(Tar::new().pax(&[(key, value)]).file("f", "")).bad().contains(word), "{word}");
    }
    assert!(apply(Tar::new().with(Head::new("x", b'x'), b"999 a=b\n").file("f", "")).bad().contains("PAX"));
    assert!(apply(Tar::new().head(&Head::new("v", b'V'))).bad().contains("type"));
    assert!(apply(Tar::new().pax(&[("path", b"f")])).bad().contains("nothing behind"));
    let mut broken = Head::new("f", b'0').block();
    broken[0] ^= 1;
    assert!(apply_bytes(&broken).bad().contains("checksum"));
    let whole = Tar::new().file("f", "data").0;
    assert!(apply_bytes(&whole[..514]).bad().contains("ends inside"));
    let mut hole = Tar::new().0;
    hole.resize(512, 0);
    hole.extend(Tar::new().file("f", "").0);
    assert!(apply_bytes(&hole).bad().contains("zeros"));
}

#[test]
fn long_names_of_all_kinds_are_read_and_the_kernels_limits_are_errors() {
    let name = format!("{}/{}", "d".repeat(200), "n".repeat(255));
    let tar =
        Tar::new().with(Head::new("././@LongLink", b'L'), format!("{name}\0").as_bytes()).file("short", "1");
    let target = "t".repeat(300);
    let tar = tar.with(Head::new("././@LongLink", b'K'), format!("{target}\0").as_bytes()).symlink("s", "x");
    let pax = format!("{}/p", "q".repeat(250));
    let out = apply(
        tar.pax(&[("path", pax.as_bytes())]).file("other", "2").pax(&[("path", b"\xff\xfe")]).file("n", "3"),
    );
    out.good();
    assert_eq!((out.read(&name), out.read(&pax)), ("1".into(), "2".into()));
    assert_eq!(std::fs::read_link(out.path("s")).unwrap().as_os_str().len(), 300);
    assert_eq!(
        std::fs::read(
            out.root.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe"))
        )
        .unwrap(),
        b"3"
    );
    let long = "x".repeat(256);
    apply(Tar::new().pax(&[("path", long.as_bytes())]).file("f", "")).bad();
    let deep = "a/".repeat(3000);
    apply(Tar::new().pax(&[("path", deep.as_bytes())]).file("f", "")).bad();
    let near = "a/".repeat(2040);
    apply(Tar::new().pax(&[("path", near.as_bytes())]).dir("f")).good();
}

#[test]
fn the_last_of_repeated_headers_counts_and_global_ones_do_not() {
    let tar =
        Tar::new().with(Head::new("g", b'g'), b"12 path=bad\n").pax(&[("path", b"one"), ("path", b"two")]);
    let out = apply(tar.file("f", "x").file("g", "y"));
    out.good();
    assert_eq!((out.read("two"), out.read("g")), ("x".into(), "y".into()));
    assert!(!out.exists("bad") && !out.exists("one"));
}

fn old_gnu_sparse() -> Tar {
    let mut block = Head::new("gnu", b'S').size(6).block();
    block[257..265].copy_from_slice(b"ustar  \0");
    block[329..512].fill(0);
    for (at, value) in [(386, 0u64), (398, 3), (410, 8192), (422, 3)] {
        block[at..at + 12].copy_from_slice(format!("{value:011o}\0").as_bytes());
    }
    block[483..495].copy_from_slice(format!("{:011o}\0", 10_000).as_bytes());
    seal(&mut block);
    Tar(block.to_vec()).raw(b"abcdef")
}

#[test]
fn all_sparse_forms_give_the_same_file() {
    let data = b"abcdef";
    let mut map = b"2\n0\n3\n8192\n3\n".to_vec();
    map.resize(512, 0);
    let in_data = [&map[..], data].concat();
    let v00: &[(&str, &[u8])] = &[
        ("GNU.sparse.size", b"10000"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.offset", b"0"),
        ("GNU.sparse.numbytes", b"3"),
        ("GNU.sparse.offset", b"8192"),
        ("GNU.sparse.numbytes", b"3"),
    ];
    let v01: &[(&str, &[u8])] =
        &[("GNU.sparse.size", b"10000"), ("GNU.sparse.name", b"v01"), ("GNU.sparse.map", b"0,3,8192,3")];
    let v10: &[(&str, &[u8])] = &[
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"v10"),
        ("GNU.sparse.realsize", b"10000"),
    ];
    let tar = old_gnu_sparse()
        .pax(v00)
        .with(Head::new("v00", b'0'), data)
        .pax(v01)
        .with(Head::new("x", b'0'), data);
    let out = apply(tar.pax(v10).with(Head::new("y", b'0'), &in_data).file("after", "z"));
    out.good();
    let mut want = vec![0u8; 10_000];
    want[..3].copy_from_slice(b"abc");
    want[8192..8195].copy_from_slice(b"def");
    for name in ["gnu", "v00", "v01", "v10"] {
        assert_eq!(std::fs::read(out.path(name)).unwrap(), want, "{name}");
    }
    assert_eq!(out.read("after"), "z");
}

#[test]
fn sparse_maps_are_bounded_and_checked() {
    let map = |map: &[u8], size: &[u8]| {
        let records: &[(&str, &[u8])] = &[("GNU.sparse.size", size), ("GNU.sparse.map", map)];
        apply(Tar::new().pax(records).with(Head::new("f", b'0'), b"abc")).bad()
    };
    for bad in [&b"0,3,1"[..], b"0,4", b"5,3,0,0", b"0,2,1,1", b"9,3", b"-1,3", b"0,3,99999999999999999999,0"]
    {
        map(bad, b"10");
    }
    map(b"0,3", b"99999999999999999");
    let mut block = Head::new("f", b'S').block();
    block[257..265].copy_from_slice(b"ustar  \0");
    block[482] = 1;
    seal(&mut block);
    let mut endless = vec![b'1'; 512];
    endless[504] = 1;
    let endless: Vec<u8> = (0..10_000).flat_map(|_| endless.clone()).collect();
    apply_bytes(&[&block[..], &endless].concat()).bad();
}

#[test]
fn an_empty_layer_garbage_behind_the_end_and_doubles_are_fine() {
    apply(Tar::new()).good();
    apply_bytes(b"").good();
    let mut bytes = Tar::new().file("a", "1").file("a", "2").end();
    bytes.extend_from_slice(b"garbage that is no header");
    let out = apply_bytes(&bytes);
    out.good();
    assert_eq!(out.read("a"), "2");
}

#[test]
fn too_many_entries_are_too_many() {
    let tar = (0..10_001).fold(Tar::new(), |tar, _| tar.dir("d"));
    assert!(apply(tar).bad().contains("entries"));
}
