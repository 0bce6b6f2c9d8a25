//! Documents that mean one thing, and those that could mean two.

use super::*;

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn read(media_type: &str, json: &str) -> Result<Document, ManifestError> {
    let bytes = Bytes::from(json.replace("DIGEST", DIGEST));
    let digest = Digest::parse(DIGEST).unwrap();
    parse("x", &Fetched { bytes, media_type: essence(media_type), digest, endpoint: String::new() })
}

#[test]
fn parameters_of_the_media_type_do_not_matter() {
    let json = r#"{"schemaVersion":2,"config":{"digest":"DIGEST","size":1},"layers":[]}"#;
    let document = read("application/vnd.oci.image.manifest.v1+json; charset=utf-8", json).unwrap();
    assert!(document.layers.is_some());
    assert!(read("application/json", json).is_ok());
}

#[test]
fn ambiguous_documents_are_refused() {
    let both = r#"{"config":{"digest":"DIGEST","size":1},"layers":[],"manifests":[]}"#;
    assert!(matches!(read(OCI_MANIFEST, both), Err(ManifestError::Bad { .. })));
    let lies = r#"{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;
    assert!(matches!(read(OCI_MANIFEST, lies), Err(ManifestError::Bad { .. })));
    assert!(matches!(
        read(OCI_INDEX, r#"{"config":{"digest":"DIGEST","size":1},"layers":[]}"#),
        Err(ManifestError::Bad { .. })
    ));
    assert!(matches!(
        read(
            "application/vnd.docker.distribution.manifest.v1+prettyjws",
            r#"{"schemaVersion":1,"fsLayers":[]}"#
        ),
        Err(ManifestError::MediaType { .. })
    ));
    assert!(matches!(
        read(OCI_MANIFEST, r#"{"config":{"digest":"md5:00","size":1},"layers":[]}"#),
        Err(ManifestError::Bad { .. })
    ));
}

#[test]
fn the_best_platform_is_chosen_and_a_missing_one_named() {
    let list = |platforms: &[(&str, &str, &str)]| -> Vec<Descriptor> {
        let one = |(os, architecture, variant): &(&str, &str, &str)| Descriptor {
            media_type: OCI_MANIFEST.into(),
            digest: Digest::parse(DIGEST).unwrap(),
            size: 1,
            platform: Some(RawPlatform {
                os: (*os).into(),
                architecture: (*architecture).into(),
                variant: (*variant).into(),
            }),
        };
        platforms.iter().map(one).collect()
    };
    let many = list(&[
        ("linux", "arm", "v6"),
        ("linux", "arm", "v7"),
        ("unknown", "unknown", ""),
        ("linux", "arm64", "v8"),
    ]);
    let chosen = choose("x", &many, &Platform::new("linux", "arm", "v7")).unwrap();
    assert_eq!(chosen.platform.as_ref().unwrap().variant, "v7");
    let error = choose("x", &many, &Platform::new("linux", "amd64", "")).unwrap_err().to_string();
    assert!(
        error.contains("linux/amd64") && error.contains("linux/arm64/v8") && !error.contains("unknown"),
        "{error}"
    );
}

#[test]
fn only_tars_are_layers() {
    let layer = |kind: &str| {
        check_layer(
            "x",
            &Descriptor {
                media_type: kind.into(),
                digest: Digest::parse(DIGEST).unwrap(),
                size: 1,
                platform: None,
            },
        )
    };
    for good in [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip; a=b",
    ] {
        assert!(layer(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
        "application/vnd.wasm.content.layer.v1+wasm",
    ] {
        assert!(layer(bad).is_err(), "{bad}");
    }
}
