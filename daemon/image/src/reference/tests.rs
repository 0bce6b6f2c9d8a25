//! References as people write them, and as they must not.

use super::*;

#[test]
fn short_forms_are_dockers() {
    let cases = [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/a/b:c", "docker.io/a/b:c"),
        ("localhost/a", "localhost/a:latest"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("127.0.0.1:5000/x/y:z", "127.0.0.1:5000/x/y:z"),
        ("[::1]:5000/x:z", "[::1]:5000/x:z"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("UPPER/x", "UPPER/x:latest"),
        ("a--b/c__d.e_f", "docker.io/a--b/c__d.e_f:latest"),
    ];
    for (text, want) in cases {
        assert_eq!(Reference::parse(text).unwrap().to_string(), want, "{text}");
    }
}

#[test]
fn a_digest_decides_and_leaves_no_tag() {
    let digest = format!("sha256:{}", "ab".repeat(32));
    let both = Reference::parse(&format!("nginx:1@{digest}")).unwrap();
    assert_eq!(both.manifest_part(), digest);
    assert_eq!(both.repo_tag(), None);
    let only = Reference::parse(&format!("nginx@{digest}")).unwrap();
    assert_eq!(only.tag(), None);
    assert_eq!(only.to_string(), format!("docker.io/library/nginx@{digest}"));
}

#[test]
fn bad_ones_are_refused_with_their_part() {
    let bad = ": / a/ /a a//b a: a:-x A a/B a..b a_-b -a a- a@ a@sha256:1 a@md5:00 host:99999/a host:0/a ho_st.x/a \
               -h.x/a [::1/a [zz]/a a:b:c a/../b a\u{e9}b http://h/a";
    let bad = bad.split_whitespace().chain(["", "a b", "a\nb"]);
    for text in bad {
        assert!(Reference::parse(text).is_err(), "{text}");
    }
    // A repository with a dot, and a tag of digits: both legal on Docker Hub.
    assert!(Reference::parse("x.y").is_ok() && Reference::parse("localhost:5000").is_ok());
    assert!(Reference::parse(&"a".repeat(300)).is_err());
    assert!(Reference::parse(&format!("a:{}", "t".repeat(129))).is_err());
    assert!(matches!(Reference::parse(&"ab".repeat(32)), Err(ReferenceError::Id(_))));
}
