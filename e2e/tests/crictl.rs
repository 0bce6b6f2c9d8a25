//! Every verb of the real crictl that the slice serves, each held against what it must say.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context};
use berth_e2e::{check, samples, tests};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

tests![node_verbs, image_verbs, pod_verbs, container_verbs, unknown_ids];

const IMAGE: &str = "registry.e2e.test/web:1";

async fn laid(context: &Context) -> Result<Bed> {
    let bed = context.bed().await?;
    bed.registry.push("web", "1", &samples::web("a page of berth\n")?);
    Ok(bed)
}

fn write(dir: &Path, name: &str, value: &Value) -> Result<PathBuf> {
    let path = dir.join(name);
    std::fs::write(&path, value.to_string())?;
    Ok(path)
}

fn pod_file(bed: &Bed, name: &str) -> Result<String> {
    let dir = bed.node.dir();
    let value = json!({
        "metadata": { "name": name, "namespace": "crictl", "uid": format!("{name}-uid"), "attempt": 1 },
        "hostname": "host-of-it", "log_directory": dir.join("logs").join(name),
        "labels": { "made": "by-crictl" }, "annotations": { "note": "kept" },
        "linux": { "cgroup_parent": bed.node.cgroup().child(name), "security_context": {
            "namespace_options": { "network": 0, "pid": 1, "ipc": 0 } } },
    });
    Ok(write(dir, &format!("{name}.json"), &value)?.display().to_string())
}

fn container_file(bed: &Bed) -> Result<String> {
    let value = json!({
        "metadata": { "name": "web", "attempt": 0 }, "image": { "image": IMAGE },
        "command": ["sh", "-c", "echo out; echo err >&2; exec httpd -f -p 80 -h /www"],
        "envs": [{ "key": "COLOUR", "value": "green" }], "working_dir": "/www", "log_path": "web.log",
        "labels": { "tier": "front" },
        "linux": { "resources": { "memory_limit_in_bytes": 64 << 20 },
            "security_context": { "namespace_options": { "network": 0, "pid": 1, "ipc": 0 } } },
    });
    Ok(write(bed.node.dir(), "container.json", &value)?.display().to_string())
}

async fn node_verbs(context: Context) -> Result<()> {
    let bed = laid(&context).await?;
    let crictl = bed.node.crictl()?;
    let version = crictl.run(&["version"]).await?;
    check!(version.contains("RuntimeName:  berth\n"), "{version}");
    check!(version.contains("RuntimeApiVersion:  v1\n"), "{version}");
    let info = crictl.run(&["info"]).await?;
    let info: Value = serde_json::from_str(&info).context("info is no JSON")?;
    let conditions = info["status"]["conditions"].as_array().context("no conditions")?;
    for kind in ["RuntimeReady", "NetworkReady"] {
        let ready = conditions.iter().any(|c| c["type"] == kind && c["status"] == true);
        check!(ready, "{kind} is not true: {conditions:?}");
    }
    crictl.run(&["pull", IMAGE]).await?;
    let filesystems = crictl.json(&["imagefsinfo"]).await?;
    let usage = &filesystems["status"]["imageFilesystems"][0];
    let mountpoint = usage["fsId"]["mountpoint"].as_str().unwrap_or_default();
    check!(mountpoint.starts_with(&bed.node.dir().display().to_string()), "{filesystems}");
    check!(usage["usedBytes"]["value"].as_str().is_some_and(|v| v != "0"), "{filesystems}");
    Ok(())
}

async fn image_verbs(context: Context) -> Result<()> {
    let bed = laid(&context).await?;
    let crictl = bed.node.crictl()?;
    let image = samples::web("a page of berth\n")?;
    let pulled = crictl.run(&["pull", IMAGE]).await?;
    check!(pulled.contains(&image.id), "pull said {pulled:?}, the image is {}", image.id);
    let images = crictl.json(&["images"]).await?;
    let listed = images["images"].as_array().context("no images")?;
    check!(listed.len() == 1, "{images}");
    check!(listed[0]["id"] == image.id, "{images}");
    check!(listed[0]["repoTags"] == json!([IMAGE]), "{images}");
    let digest = format!("registry.e2e.test/web@{}", image.manifest.digest);
    check!(listed[0]["repoDigests"] == json!([digest]), "{images}");
    let size: u64 = listed[0]["size"].as_str().unwrap_or_default().parse()?;
    check!(size > 300_000, "{images}");
    let inspected = crictl.json(&["inspecti", IMAGE]).await?;
    check!(inspected["status"]["id"] == image.id, "{inspected}");
    crictl.run(&["rmi", IMAGE]).await?;
    check!(crictl.json(&["images"]).await?["images"] == json!([]), "still listed after rmi");
    let words = crictl.fails(&["inspecti", IMAGE]).await?;
    check!(words.contains("no such image"), "{words}");
    Ok(())
}

async fn pod_verbs(context: Context) -> Result<()> {
    let bed = laid(&context).await?;
    let crictl = bed.node.crictl()?;
    let id = crictl.run(&["runp", &pod_file(&bed, "one")?]).await?.trim().to_owned();
    bed.node.remember(&id);
    check!(id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id:?} is no id");
    let pods = crictl.json(&["pods"]).await?;
    let pod = &pods["items"][0];
    check!(pod["id"] == id && pod["state"] == "SANDBOX_READY", "{pods}");
    let metadata = json!({ "name": "one", "namespace": "crictl", "uid": "one-uid", "attempt": 1 });
    check!(pod["metadata"] == metadata, "{pods}");
    check!(pod["labels"]["made"] == "by-crictl" && pod["annotations"]["note"] == "kept", "{pods}");
    let inspected = crictl.json(&["inspectp", &id]).await?;
    let address = inspected["status"]["network"]["ip"].as_str().unwrap_or_default();
    let subnet = bed.node.subnet();
    let prefix = subnet.trim_end_matches("0/24");
    check!(address.starts_with(prefix), "{address:?} is not in {subnet}: {inspected}");
    crictl.run(&["stopp", &id]).await?;
    let pods = crictl.json(&["pods"]).await?;
    check!(pods["items"][0]["state"] == "SANDBOX_NOTREADY", "{pods}");
    crictl.run(&["rmp", &id]).await?;
    check!(crictl.json(&["pods"]).await?["items"] == json!([]), "still listed after rmp");
    Ok(())
}

async fn container_verbs(context: Context) -> Result<()> {
    let bed = laid(&context).await?;
    let crictl = bed.node.crictl()?;
    crictl.run(&["pull", IMAGE]).await?;
    let (pod_file, file) = (pod_file(&bed, "two")?, container_file(&bed)?);
    let pod = crictl.run(&["runp", &pod_file]).await?.trim().to_owned();
    bed.node.remember(&pod);
    let id = crictl.run(&["create", &pod, &file, &pod_file]).await?.trim().to_owned();
    bed.node.remember(&id);
    let created = crictl.json(&["ps", "-a"]).await?;
    check!(created["containers"][0]["state"] == "CONTAINER_CREATED", "{created}");
    check!(crictl.run(&["start", &id]).await?.trim() == id, "start does not say the id");
    let listed = crictl.json(&["ps"]).await?;
    check!(listed["containers"][0]["state"] == "CONTAINER_RUNNING", "{listed}");
    check!(listed["containers"][0]["podSandboxId"] == pod, "{listed}");
    inspect(&bed, &id).await?;
    short_ids(&bed, &pod, &id).await?;
    inside(&bed, &pod, &id).await?;
    ending(&bed, &pod, &id).await
}

async fn inspect(bed: &Bed, id: &str) -> Result<()> {
    let crictl = bed.node.crictl()?;
    let inspected = crictl.json(&["inspect", id]).await?;
    let status = &inspected["status"];
    check!(status["metadata"] == json!({ "name": "web", "attempt": 0 }), "{inspected}");
    check!(status["image"]["image"] == IMAGE, "{inspected}");
    check!(status["imageId"] == samples::web("a page of berth\n")?.id, "{inspected}");
    check!(status["labels"]["tier"] == "front", "{inspected}");
    check!(status["logPath"].as_str().is_some_and(|p| p.ends_with("two/web.log")), "{inspected}");
    Ok(())
}

/// People type the first characters of an id.
async fn short_ids(bed: &Bed, pod: &str, id: &str) -> Result<()> {
    let crictl = bed.node.crictl()?;
    let inspected = crictl.json(&["inspect", &id[..12]]).await?;
    check!(inspected["status"]["id"] == id, "{inspected}");
    let inspected = crictl.json(&["inspectp", &pod[..12]]).await?;
    check!(inspected["status"]["id"] == pod, "{inspected}");
    let image = &samples::web("a page of berth\n")?.id;
    let inspected = crictl.json(&["inspecti", &image["sha256:".len()..][..12]]).await?;
    check!(inspected["status"]["id"] == *image, "{inspected}");
    Ok(())
}

async fn inside(bed: &Bed, pod: &str, id: &str) -> Result<()> {
    let crictl = bed.node.crictl()?;
    let said = crictl.run(&["exec", "-s", id, "sh", "-c", "echo $COLOUR; pwd; hostname"]).await?;
    // crictl sets an empty line between what came on stdout and on stderr.
    check!(said.trim_end() == "green\n/www\nhost-of-it", "{said:?}");
    let words = crictl.fails(&["exec", "-s", id, "sh", "-c", "exit 7"]).await?;
    check!(words.contains('7'), "{words}");
    let logs = crictl.run(&["logs", id]).await?;
    check!(logs == "out\n", "{logs:?}");
    let stats = crictl.json(&["stats", id]).await?;
    let stats = &stats["stats"][0];
    check!(stats["attributes"]["id"] == id, "{stats}");
    let number = |value: &Value| value["value"].as_str().and_then(|v| v.parse::<u64>().ok());
    check!(number(&stats["cpu"]["usageCoreNanoSeconds"]).is_some_and(|v| v > 0), "{stats}");
    check!(number(&stats["memory"]["workingSetBytes"]).is_some_and(|v| v > 0), "{stats}");
    let address = crictl.json(&["inspectp", pod]).await?["status"]["network"]["ip"].clone();
    let address = address.as_str().context("no ip")?;
    let page = http_get(address).await?;
    check!(page.contains("a page of berth"), "{page:?}");
    Ok(())
}

/// One GET, straight from this host to the pod.
async fn http_get(address: &str) -> Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect((address, 80)).await?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn ending(bed: &Bed, pod: &str, id: &str) -> Result<()> {
    let crictl = bed.node.crictl()?;
    crictl.run(&["stop", "--timeout", "1", id]).await?;
    let listed = crictl.json(&["ps", "-a"]).await?;
    check!(listed["containers"][0]["state"] == "CONTAINER_EXITED", "{listed}");
    let status = crictl.json(&["inspect", id]).await?["status"].clone();
    // SIGTERM does nothing to a PID 1 without a handler, so the grace period ends in SIGKILL.
    check!(status["exitCode"] == 137 || status["exitCode"] == 143, "{status}");
    crictl.run(&["rm", id]).await?;
    check!(crictl.json(&["ps", "-a"]).await?["containers"] == json!([]), "still listed after rm");
    crictl.run(&["stopp", pod]).await?;
    crictl.run(&["rmp", pod]).await?;
    crictl.run(&["rmi", IMAGE]).await?;
    Ok(())
}

async fn unknown_ids(context: Context) -> Result<()> {
    let bed = laid(&context).await?;
    let crictl = bed.node.crictl()?;
    let id = "ab".repeat(32);
    for verb in ["inspect", "inspectp", "start"] {
        let words = crictl.fails(&[verb, &id]).await?;
        let lower = words.to_lowercase();
        check!(lower.contains("not found") || lower.contains("notfound"), "{verb}: {words}");
    }
    Ok(())
}
