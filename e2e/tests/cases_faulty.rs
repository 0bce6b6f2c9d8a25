//! Small inputs that other runtimes got wrong: programs that never start under an exec, an exec's surroundings, plugins
//! that misbehave outside ADD and DEL, and damaged CNI configuration.

use anyhow::{Context as _, Result};
use berth_e2e::faults::{self, Mood, Plugin, Position};
use berth_e2e::harness::{Bed, Context, text};
use berth_e2e::image::{ImageBuilder, Layer};
use berth_e2e::node::{NetworkMode, Settings};
use berth_e2e::{check, podspec, samples, tests};
use berth_proto::cri as wire;
use serde_json::json;
use std::time::{Duration, Instant};

tests![
    execs_that_never_start,
    exec_has_the_containers_surroundings,
    plugins_outside_add_and_del,
    orders_are_stable
];

/// A program that never started never looks like success; the error names path and reason in valid text.
async fn execs_that_never_start(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let layer = Layer::new()
        .file("plain", 0o644, "#!/bin/sh\n")
        .dir("folder", 0o755)
        .file("no-interpreter", 0o755, "#!/no/such/interpreter\n")
        .file("no-program", 0o755, "\u{1}\u{2}neither text nor ELF");
    let image = ImageBuilder::new().layer(samples::busybox_layer()?).layer(layer).build();
    bed.registry.push("broken", "1", &image);
    let image = bed.image("broken:1");
    let mut cri = bed.cri().await?;
    cri.pull(&image).await?;
    let pod = bed.pod("never").await?;
    let id = bed.start(&pod, &podspec::container("c", &image, &["sleep", "1000"])).await?;
    let cases = [
        ("/missing", "ENOENT"),
        ("not-in-path", "ENOENT"),
        ("/plain", "EACCES"),
        ("/folder", "EACCES"),
        ("/no-interpreter", "ENOENT"),
        ("/no-program", "ENOEXEC"),
        ("/with \"quotes\" and 'more'", "ENOENT"),
        ("/with\u{1}control\u{1b}[31m", "ENOENT"),
    ];
    for (program, errno) in cases {
        let said = match cri.exec(&id, &[program], 10).await {
            Ok(answer) => anyhow::bail!("{program:?} looked like a program that ran: {answer:?}"),
            Err(status) => status.message().to_owned(),
        };
        check!(said.contains(errno), "{program:?}: no {errno} in {said:?}");
        let word = program.split(['\u{1}', '"']).next().unwrap_or(program);
        check!(said.contains(word.trim()), "{program:?} is not named in {said:?}");
    }
    check!(bed.exec(&id, "echo well").await? == "well\n", "the container after all this");
    let left = bed.exec(&id, "ps | wc -l").await?;
    check!(left.trim().parse::<u32>().is_ok_and(|count| count < 8), "something was left: {left}");
    Ok(())
}

/// An exec has the container's environment, by request and by image, and finds programs in its PATH.
async fn exec_has_the_containers_surroundings(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let tool = Layer::new().dir("opt", 0o755).dir("opt/own", 0o755).file(
        "opt/own/tool",
        0o755,
        "#!/bin/sh\necho \"tool in $PWD\"\n",
    );
    let builder = ImageBuilder::new().layer(samples::busybox_layer()?).layer(tool);
    let builder = builder.config("Env", json!(["PATH=/opt/own:/bin", "IMAGE=i"]));
    bed.registry.push("own-path", "1", &builder.config("WorkingDir", json!("/opt")).build());
    let image = bed.image("own-path:1");
    let mut cri = bed.cri().await?;
    cri.pull(&image).await?;
    let pod = bed.pod("around").await?;
    let mut config = podspec::container("c", &image, &["sleep", "1000"]);
    config.envs = vec![wire::KeyValue { key: "ASKED".to_owned(), value: b"a=b c".to_vec() }];
    let id = bed.start(&pod, &config).await?;
    let answer = cri.exec(&id, &["tool"], 10).await.context("a program that only the image's PATH finds")?;
    check!(text(&answer.stdout) == "tool in /opt\n", "{answer:?}");
    let own = bed.exec(&id, "tr '\\0' '\\n' < /proc/1/environ | sort").await?;
    let exec = cri.exec(&id, &["env"], 10).await?;
    let mut lines: Vec<String> = text(&exec.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    let own: Vec<&str> = own.lines().filter(|line| !line.is_empty()).collect();
    check!(lines == own, "exec has {lines:?}, the container {own:?}");
    check!(own.contains(&"ASKED=a=b c") && own.contains(&"IMAGE=i"), "{own:?}");
    Ok(())
}

/// STATUS hangs, CHECK fails, a file is damaged, the configuration is written again and again: the node answers at once
/// and running pods are left alone.
async fn plugins_outside_add_and_del(context: Context) -> Result<()> {
    let node = context.prepared(Settings::network(NetworkMode::Cni))?;
    let plugin = Plugin::install(&node, Position::Last)?;
    std::fs::write(node.dir().join("cni/05-damaged.conflist"), "{ this is no JSON")?;
    let bed = context.lay(node).await?;
    bed.node.start_daemon().await?;
    let pod = bed.pod("alone").await?;
    let id = bed.busybox_in(&pod, "c", "exec sleep 1000").await?;
    let before = bed.cri().await?.pod(&pod.id).await?.network;
    plugin.be("STATUS", Mood::Hangs)?;
    let slowest = rewrite(&bed).await?;
    check!(slowest < Duration::from_secs(1), "Status took {slowest:?} while a plugin hung");
    plugin.be("CHECK", Mood::Fails)?;
    bed.node.kill_daemon().await?;
    bed.node.start_daemon().await?;
    check!(bed.cri().await?.pod(&pod.id).await?.network == before, "the pod's addresses");
    check!(bed.exec(&id, "echo well").await? == "well\n", "the pod after a failing CHECK");
    let info = bed.cri().await?.status(true).await?.info;
    let named = info.values().any(|text| text.contains("05-damaged.conflist"));
    check!(named, "the damaged file is not named in {info:?}");
    plugin.be("CHECK", Mood::Well)?;
    bed.node.remove_everything().await?;
    faults::remove_bridge(&bed.node);
    Ok(())
}

/// Writes the configuration a hundred times and asks for the status now and then; the slowest answer.
async fn rewrite(bed: &Bed) -> Result<Duration> {
    let path = bed.node.dir().join("cni/10-e2e.conflist");
    let words = std::fs::read(&path)?;
    let fresh = path.with_extension("new");
    let mut slowest = Duration::ZERO;
    let mut cri = bed.cri().await?;
    for round in 0..100 {
        std::fs::write(&fresh, &words)?;
        std::fs::rename(&fresh, &path)?;
        if round % 5 == 0 {
            let begun = Instant::now();
            cri.status(false).await?;
            slowest = slowest.max(begun.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(slowest)
}

/// Lists, and the lists within what is listed, have one order, also after a restart.
async fn orders_are_stable(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let image = samples::busybox()?;
    for tag in ["b", "a", "d", "c"] {
        bed.registry.push("many", tag, &image);
        bed.cri().await?.pull(&bed.image(&format!("many:{tag}"))).await?;
    }
    for name in ["two", "one", "three"] {
        bed.pod(name).await?;
    }
    let mut cri = bed.cri().await?;
    let first = (cri.images().await?, cri.pods().await?, cri.status(true).await?.runtime_handlers);
    for image in &first.0 {
        check!(image.repo_tags.is_sorted() && image.repo_digests.is_sorted(), "{image:?}");
    }
    for round in 0..60 {
        if round == 30 {
            bed.node.kill_daemon().await?;
            bed.node.start_daemon().await?;
            cri = bed.cri().await?;
        }
        let again = (cri.images().await?, cri.pods().await?, cri.status(true).await?.runtime_handlers);
        check!(again == first, "round {round}: {again:?}\nfirst: {first:?}");
    }
    Ok(())
}
