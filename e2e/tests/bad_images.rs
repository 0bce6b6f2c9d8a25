//! Images that must be refused, each with an error that says what is wrong, and nothing kept of them.

use anyhow::Result;
use berth_e2e::harness::{Bed, Context};
use berth_e2e::image::{Blob, Entry, ImageBuilder, Kind, Layer, index, media};
use berth_e2e::registry::{Act, Fault};
use berth_e2e::{check, samples, tests};
use serde_json::json;
use tonic::Code;

tests![
    unknown_reference,
    unparsable_reference,
    other_architecture,
    digest_mismatch,
    registry_down,
    huge_manifest,
    layers_that_escape,
    broken_body,
    wrong_diff_id,
];

/// Pulls something that must fail; the error's words. Nothing may be left of it.
async fn refused(bed: &Bed, image: &str) -> Result<(Code, String)> {
    let mut cri = bed.cri().await?;
    let error = match cri.pull(image).await {
        Ok(reference) => anyhow::bail!("{image} was pulled as {reference}"),
        Err(error) => error,
    };
    check!(cri.images().await?.is_empty(), "a refused image is listed");
    let left = layers(bed)?;
    check!(left.is_empty(), "a refused image left {left:?}");
    Ok((error.code(), error.message().to_owned()))
}

/// What is in the layer store; temporary names included.
fn layers(bed: &Bed) -> Result<Vec<String>> {
    let folder = bed.node.dir().join("root/layers");
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

async fn unknown_reference(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    for name in ["none:1", "busybox:none"] {
        let (code, words) = refused(&bed, &bed.image(name)).await?;
        check!(code == Code::NotFound, "{code:?}: {words}");
        check!(words.contains(name), "the error does not name {name}: {words}");
    }
    Ok(())
}

async fn unparsable_reference(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let digest = format!("{}@sha256:{}", bed.image("busybox"), "g".repeat(64));
    let bad = [
        "",
        "registry.e2e.test/UPPER",
        "a b",
        "registry.e2e.test/x:",
        "registry.e2e.test/x@sha256:12",
        &digest,
    ];
    for name in bad {
        let (code, words) = refused(&bed, name).await?;
        check!(code == Code::InvalidArgument, "{name:?} gives {code:?}: {words}");
    }
    Ok(())
}

async fn other_architecture(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let layer = Layer::new().file("a", 0o644, "a");
    let image = ImageBuilder::new().layer(layer).architecture("s390x").build();
    bed.registry.push_untagged("other", &image);
    bed.registry.push_manifest("other", "index", &index(&[&image]));
    bed.registry.push("other", "plain", &image);
    for tag in ["index", "plain"] {
        let (_, words) = refused(&bed, &bed.image(&format!("other:{tag}"))).await?;
        check!(words.contains("amd64") && words.contains("s390x"), "{tag}: {words}");
    }
    Ok(())
}

async fn digest_mismatch(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    bed.registry.fail(Fault::on("/blobs/", Act::FlipBit));
    let (_, words) = refused(&bed, &bed.image("busybox:1")).await?;
    check!(words.contains("sha256:") && words.contains("digest"), "{words}");
    bed.registry.behave();
    bed.registry.fail(Fault::on("/manifests/sha256:", Act::FlipBit));
    let digest = samples::busybox()?.manifest.digest;
    let (_, words) = refused(&bed, &format!("{}@{digest}", bed.image("busybox"))).await?;
    check!(words.contains("digest"), "{words}");
    bed.registry.behave();
    bed.busybox().await?;
    Ok(())
}

async fn registry_down(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    // A port that was free a moment ago and has no listener.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let (code, words) = refused(&bed, &format!("127.0.0.1:{port}/gone:1")).await?;
    check!(code == Code::Unavailable, "{code:?}: {words}");
    check!(words.contains("RegistryUnavailable"), "the kubelet's word is missing: {words}");
    Ok(())
}

async fn huge_manifest(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = samples::busybox()?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": media::MANIFEST, "config": image.blobs[0].descriptor(),
        "layers": [image.blobs[1].descriptor()], "annotations": { "fill": "x".repeat(5 << 20) },
    });
    bed.registry.push("busybox", "1", &image);
    let manifest = Blob::new(media::MANIFEST, manifest.to_string().into_bytes());
    bed.registry.push_manifest("busybox", "huge", &manifest);
    let (_, words) = refused(&bed, &bed.image("busybox:huge")).await?;
    check!(words.contains("4 MiB") || words.contains("4194304"), "the limit is not named: {words}");
    Ok(())
}

async fn layers_that_escape(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let victim = bed.node.dir().join("victim");
    let target = victim.display().to_string();
    let up = format!("{}{}", "../".repeat(20), target.trim_start_matches('/'));
    let file = |path: &str| Entry::new(path, Kind::File(b"escaped".to_vec()));
    let hostile = [
        ("dotdot", Layer::new().entry(file(&up))),
        ("inner", Layer::new().dir("a", 0o755).entry(file(&format!("a/{up}")))),
        ("hardlink", Layer::new().hardlink("shadow", "../../../../../../etc/hostname", 0o644)),
        ("whiteout", Layer::new().file("../.wh.layers", 0o644, "")),
    ];
    for (tag, layer) in hostile {
        bed.registry.push("escape", tag, &ImageBuilder::new().layer(layer).build());
        let (_, words) = refused(&bed, &bed.image(&format!("escape:{tag}"))).await?;
        check!(!words.is_empty(), "{tag}: an error without words");
        check!(!victim.exists(), "{tag}: wrote {target} on the host");
    }
    // Through a link the path stays inside the root: allowed, and harmless.
    let link = Layer::new().symlink("link", "/").entry(file(&format!("link{target}")));
    bed.registry.push("escape", "link", &ImageBuilder::new().layer(link).build());
    let outcome = bed.cri().await?.pull(&bed.image("escape:link")).await;
    check!(!victim.exists(), "a link led out of the root ({outcome:?})");
    Ok(())
}

async fn broken_body(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    // Every try breaks off: the pull ends with an error, soon, and not with half an image.
    bed.registry.fail(Fault::on("/blobs/", Act::Truncate(1000)));
    refused(&bed, &bed.image("busybox:1")).await?;
    bed.registry.behave();
    bed.registry.fail(Fault::on("/blobs/", Act::Truncate(1000)).times(1));
    bed.busybox().await?;
    Ok(())
}

async fn wrong_diff_id(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let (layer, _) = Layer::new().file("a", 0o644, "a").build();
    let config = json!({ "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", "0".repeat(64))] } });
    let config = Blob::new(media::CONFIG, config.to_string().into_bytes());
    let manifest = json!({ "schemaVersion": 2, "mediaType": media::MANIFEST,
        "config": config.descriptor(), "layers": [layer.descriptor()] });
    let mut image = samples::busybox()?;
    image.manifest = Blob::new(media::MANIFEST, manifest.to_string().into_bytes());
    image.blobs = vec![config, layer];
    bed.registry.push("lies", "1", &image);
    let (_, words) = refused(&bed, &bed.image("lies:1")).await?;
    check!(words.contains(&"0".repeat(64)), "the promised diffID is not named: {words}");
    Ok(())
}
