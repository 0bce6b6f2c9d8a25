//! What images become: layers that depend on each other, names, digests, credentials, odd registries.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context};
use berth_e2e::image::{Compression, Entry, Image, ImageBuilder, Kind, Layer, index};
use berth_e2e::registry::{Act, Auth, Fault};
use berth_e2e::{check, podspec, samples, tests};
use berth_proto::cri as wire;
use std::time::Duration;

tests![
    compressions,
    implicit_directories,
    whiteouts_and_links,
    directory_becomes_link,
    shared_layers,
    platforms,
    names_and_digests,
    removal_is_idempotent,
    removal_while_in_use,
    token_and_basic,
    odd_answers,
    ranges,
    plain_http_on_loopback,
    one_flight,
    canceled_pull,
];

/// What a script prints in a container of this image.
async fn inside(bed: &Bed, image: &str, script: &str) -> Result<String> {
    bed.cri().await?.pull(image).await.with_context(|| format!("pulling {image}"))?;
    let name = image.rsplit(['/', ':']).collect::<Vec<_>>().join("-").replace('.', "-");
    let pod = bed.pod(&name).await?;
    let config = podspec::container("c", image, &["sh", "-c", script]);
    let id = bed.start(&pod, &config).await?;
    let status = bed.ended(&id).await?;
    let said = std::fs::read_to_string(podspec::log(&bed.node, &name, "c"))?;
    check!(status.exit_code == 0, "`{script}` ended with {}: {said}", status.exit_code);
    let lines = said.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn upon_busybox(layers: &[Layer]) -> Result<Image> {
    let base = ImageBuilder::new().layer(samples::busybox_layer()?);
    Ok(layers.iter().cloned().fold(base, ImageBuilder::layer).build())
}

async fn compressions(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let kinds = [("none", Compression::None), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)];
    for (tag, compression) in kinds {
        let layer = Layer::new().compressed(compression).file("kind", 0o644, tag);
        bed.registry.push("kinds", tag, &upon_busybox(&[layer])?);
        let said = inside(&bed, &bed.image(&format!("kinds:{tag}")), "cat /kind").await?;
        check!(said == tag, "{tag}: {said:?}");
    }
    Ok(())
}

/// A layer that writes below a directory without naming it must not change the directory.
async fn implicit_directories(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let first = Layer::new()
        .entry(Entry::new("data", Kind::Dir).mode(0o2750).owner(33, 50))
        .dir("usr", 0o755)
        .dir("usr/lib", 0o755)
        .file("usr/lib/old", 0o644, "old")
        .symlink("lib", "usr/lib");
    let second = Layer::new()
        .file("tmp/new", 0o644, "x")
        .file("data/new", 0o644, "x")
        .file("lib/new", 0o644, "x")
        .file("fresh/deep/new", 0o644, "x");
    bed.registry.push("implicit", "1", &upon_busybox(&[first, second])?);
    let script = "stat -c '%a %u %g' /tmp /data /fresh /fresh/deep; ls /usr/lib; ls -d /lib/new";
    let said = inside(&bed, &bed.image("implicit:1"), script).await?;
    // As in containerd and Docker, a link in the way of an implicit directory becomes a directory.
    let expected = "1777 0 0\n2750 33 50\n755 0 0\n755 0 0\nold\n/lib/new";
    check!(said == expected, "{said:?}");
    Ok(())
}

async fn whiteouts_and_links(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let first = Layer::new()
        .dir("d", 0o755)
        .file("d/gone", 0o644, "x")
        .file("d/stays", 0o644, "x")
        .dir("opaque", 0o755)
        .file("opaque/old", 0o644, "x")
        .dir("again", 0o755)
        .file("again/old", 0o644, "x")
        .file("target", 0o600, "linked");
    let second = Layer::new()
        .whiteout("d/gone")
        .whiteout("d/never-was")
        .dir("opaque", 0o755)
        .file("opaque/.wh..wh..opq", 0o644, "")
        .file("opaque/new", 0o644, "x")
        .whiteout("again")
        .dir("again", 0o700)
        .file("again/new", 0o644, "x")
        .hardlink("second-name", "target", 0o600);
    bed.registry.push("whiteouts", "1", &upon_busybox(&[first, second])?);
    let script = "ls -A /d /opaque /again; cat /second-name; stat -c ' %h' /target /second-name";
    let said = inside(&bed, &bed.image("whiteouts:1"), script).await?;
    let expected = "/again:\nnew\n\n/d:\nstays\n\n/opaque:\nnew\nlinked 2\n 2";
    check!(said == expected, "{said:?}");
    Ok(())
}

/// A directory replaced by a link, with a whiteout left below it, in both orders.
async fn directory_becomes_link(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let lower = Layer::new().dir("a", 0o755).file("a/a", 0o644, "x");
    let orders = [
        Layer::new().file("a/.wh.a", 0o644, "").symlink("a", "b").dir("b", 0o755),
        Layer::new().dir("b", 0o755).symlink("a", "b").file("a/.wh.a", 0o644, ""),
    ];
    for (at, upper) in orders.into_iter().enumerate() {
        let upper = upper.dir("x", 0o755).symlink("x/y", "/../../etc/z").symlink("s", "../../../../q");
        let tag = at.to_string();
        bed.registry.push("links", &tag, &upon_busybox(&[lower.clone(), upper])?);
        let script =
            "readlink /a /x/y /s 2>/dev/null || for l in /a /x/y /s; do ls -ld $l | sed 's/.* -> //'; done";
        let said = inside(&bed, &bed.image(&format!("links:{tag}")), script).await?;
        check!(said == "b\n/../../etc/z\n../../../../q", "order {at}: {said:?}");
    }
    Ok(())
}

/// A layer that needs nothing from below is stored once, whatever it lies on.
async fn shared_layers(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    for tag in ["1", "2", "3"] {
        let own = Layer::new().file("own", 0o644, tag);
        let common = Layer::new().dir("common", 0o755).file("common/f", 0o644, vec![7; 100_000]);
        bed.registry.push("shared", tag, &upon_busybox(&[own, common])?);
        bed.cri().await?.pull(&bed.image(&format!("shared:{tag}"))).await?;
    }
    let fetched = |digest: &str| {
        let seen = bed.registry.seen();
        seen.iter().filter(|s| s.method == "GET" && s.path.contains(digest)).count()
    };
    let common = Layer::new().dir("common", 0o755).file("common/f", 0o644, vec![7; 100_000]).build();
    check!(fetched(&common.0.digest) == 1, "fetched {} times", fetched(&common.0.digest));
    let busybox = samples::busybox_layer()?.build().0;
    check!(fetched(&busybox.digest) == 1, "fetched {} times", fetched(&busybox.digest));
    Ok(())
}

async fn platforms(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let right = upon_busybox(&[Layer::new().file("which", 0o644, "amd64")])?;
    let wrong = ImageBuilder::new().layer(Layer::new()).architecture("arm64").build();
    bed.registry.push_untagged("many", &wrong);
    bed.registry.push_untagged("many", &right);
    let index = index(&[&wrong, &right]);
    bed.registry.push_manifest("many", "1", &index);
    check!(inside(&bed, &bed.image("many:1"), "cat /which").await? == "amd64", "the wrong one");
    let status = bed.cri().await?.image_status(&bed.image("many:1")).await?.context("not there")?;
    check!(status.id == right.id, "{status:?}");
    let digest = format!("{}@{}", bed.image("many"), index.digest);
    check!(status.repo_digests == [digest.clone()], "{:?}, not {digest}", status.repo_digests);
    Ok(())
}

/// id, image_ref and image_id are one; a reference with tag and digest uses the digest.
async fn names_and_digests(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = samples::busybox()?;
    bed.registry.push("busybox", "2", &image);
    bed.registry.push("busybox", "wrong", &samples::web("x")?);
    let mut cri = bed.cri().await?;
    let digest = &image.manifest.digest;
    for name in ["busybox:1", "busybox:2", &format!("busybox@{digest}"), &format!("busybox:wrong@{digest}")] {
        let reference = cri.pull(&bed.image(name)).await.context(name.to_owned())?;
        check!(reference == image.id, "{name} gives {reference}, not {}", image.id);
    }
    let images = cri.images().await?;
    check!(images.len() == 1, "{images:?}");
    let tags = [bed.image("busybox:1"), bed.image("busybox:2")];
    check!(images[0].repo_tags == tags, "{images:?}");
    check!(images[0].repo_digests == [format!("{}@{digest}", bed.image("busybox"))], "{images:?}");
    let short = &image.id["sha256:".len()..][..12];
    for name in [image.id.as_str(), &image.id["sha256:".len()..], short, &bed.image("busybox:2")] {
        let status = cri.image_status(name).await?;
        check!(status.is_some_and(|s| s.id == image.id), "ImageStatus does not know {name}");
    }
    let pod = bed.pod("names").await?;
    let id = bed.start(&pod, &podspec::container("c", &image.id, &["sleep", "100"])).await?;
    let status = cri.container(&id).await?;
    check!(status.image_id == image.id, "{status:?}");
    check!(cri.containers().await?[0].image_id == image.id, "ListContainers has another image_id");
    Ok(())
}

async fn removal_is_idempotent(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = samples::busybox()?;
    bed.busybox().await?;
    let digest = format!("{}@{}", bed.image("busybox"), image.manifest.digest);
    let names = [bed.image("busybox:1"), image.id.clone(), digest];
    let cri = bed.cri().await?;
    let calls = (0..21).map(|at| {
        let (mut cri, name) = (cri.clone(), names[at % 3].clone());
        async move { cri.remove_image(&name).await }
    });
    for answer in futures_util::future::join_all(calls).await {
        answer?;
    }
    check!(bed.cri().await?.images().await?.is_empty(), "still listed");
    bed.busybox().await?;
    check!(bed.cri().await?.images().await?.len() == 1, "pulled again, and not listed");
    Ok(())
}

async fn removal_while_in_use(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("user").await?;
    let id = bed.busybox_in(&pod, "c", "sleep 1000").await?;
    bed.cri().await?.remove_image(&bed.image("busybox:1")).await?;
    check!(bed.cri().await?.images().await?.is_empty(), "still listed");
    check!(bed.exec(&id, "ls /bin/busybox").await? == "/bin/busybox\n", "its files are gone");
    let later = bed.busybox_in(&pod, "d", "sleep 1000").await?;
    check!(bed.exec(&later, "echo well").await? == "well\n", "after pulling again");
    Ok(())
}

fn known(username: &str, password: &str) -> wire::AuthConfig {
    let (username, password) = (username.to_owned(), password.to_owned());
    wire::AuthConfig { username, password, ..Default::default() }
}

async fn token_and_basic(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let name = bed.image("busybox:1");
    let mut cri = bed.cri().await?;
    let (user, password) = ("ann".to_owned(), "s3cret:with:colons".to_owned());
    let kinds = [
        Auth::Token { user: user.clone(), password: password.clone() },
        Auth::Basic { user: user.clone(), password: password.clone() },
    ];
    for kind in kinds {
        bed.registry.require(kind.clone());
        check!(cri.pull(&name).await.is_err(), "{kind:?}: pulled without credentials");
        let wrong = cri.pull_as(&name, Some(known("ann", "guess"))).await;
        let error = wrong.err().context("pulled with a wrong password")?;
        check!(!error.message().contains("guess"), "the password is in the error: {error}");
        cri.pull_as(&name, Some(known(&user, &password))).await.with_context(|| format!("{kind:?}"))?;
        cri.remove_image(&name).await?;
    }
    let encoded = "YW5uOnMzY3JldDp3aXRoOmNvbG9ucw==".to_owned();
    let auth = wire::AuthConfig { auth: encoded, ..Default::default() };
    cri.pull_as(&name, Some(auth)).await.context("credentials in the field `auth`")?;
    let log = std::fs::read_to_string(bed.node.log_path())?;
    check!(!log.contains("s3cret"), "the password is in the daemon's log");
    Ok(())
}

async fn odd_answers(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let name = bed.image("busybox:1");
    for act in [Act::Chunked, Act::NoDigestHeader, Act::Delay(Duration::from_millis(300))] {
        bed.registry.fail(Fault::on("/", act.clone()));
        bed.cri().await?.pull(&name).await.with_context(|| format!("{act:?}"))?;
        bed.cri().await?.remove_image(&name).await?;
        bed.registry.behave();
    }
    // A registry that is busy for a moment is asked again.
    let busy = hyper::StatusCode::SERVICE_UNAVAILABLE;
    bed.registry.fail(Fault::on("/blobs/", Act::Status(busy)).times(1));
    bed.cri().await?.pull(&name).await.context("after one 503")?;
    Ok(())
}

async fn ranges(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let name = bed.image("busybox:1");
    for act in [Act::RefuseRange, Act::IgnoreRange] {
        bed.registry.fail(Fault::on("/blobs/", Act::Truncate(50_000)).times(1));
        bed.registry.fail(Fault::on("/", act.clone()));
        bed.cri().await?.pull(&name).await.with_context(|| format!("{act:?}"))?;
        bed.cri().await?.remove_image(&name).await?;
        bed.registry.behave();
    }
    let mut first = std::collections::BTreeSet::new();
    for seen in bed.registry.seen() {
        let new = first.insert(seen.path.clone());
        check!(!new || seen.range.is_none(), "the first request has a range: {seen:?}");
    }
    Ok(())
}

/// A registry on loopback needs no hosts.toml to be asked by plain HTTP.
async fn plain_http_on_loopback(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let name = format!("{}/busybox:1", bed.registry.host());
    bed.cri().await?.pull(&name).await?;
    let status = bed.cri().await?.image_status(&name).await?.context("not there")?;
    check!(status.repo_tags == [name], "{status:?}");
    Ok(())
}

async fn one_flight(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    bed.registry.fail(Fault::on("/blobs/", Act::Delay(Duration::from_millis(300))));
    let name = bed.image("busybox:1");
    let cri = bed.cri().await?;
    let calls = (0..8).map(|_| {
        let (mut cri, name) = (cri.clone(), name.clone());
        async move { cri.pull(&name).await }
    });
    for answer in futures_util::future::join_all(calls).await {
        answer?;
    }
    let layer = samples::busybox_layer()?.build().0.digest;
    let seen = bed.registry.seen();
    let fetched = seen.iter().filter(|s| s.method == "GET" && s.path.contains(&layer)).count();
    check!(fetched == 1, "eight pulls at once fetched the layer {fetched} times");
    Ok(())
}

/// A caller that goes away leaves no half layer, and the next pull works.
async fn canceled_pull(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    bed.registry.fail(Fault::on("/blobs/", Act::Throttle(100_000)));
    let name = bed.image("busybox:1");
    let mut cri = bed.cri().await?;
    let gone = tokio::time::timeout(Duration::from_millis(700), cri.pull(&name)).await;
    check!(gone.is_err(), "the pull was too quick to be canceled");
    bed.registry.behave();
    check!(inside(&bed, &name, "echo well").await? == "well", "after a canceled pull");
    Ok(())
}
