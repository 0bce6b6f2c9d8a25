//! The steps of the demo, in order.

use crate::screen::{Screen, time};
use anyhow::{Context, bail};
use berth_e2e::cri::Cri;
use berth_e2e::node::{Node, Settings};
use berth_e2e::registry::{Act, Fault, Registry};
use berth_e2e::{podspec, procfs, samples};
use berth_proto::cri as wire;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PAGE: &str = "<h1>Hello from a Berth pod</h1>\n";
const IMAGE: &str = "registry.demo.test/hello:1";
const TICKER: &str = "i=0; while true; do echo \"tick $i\"; i=$((i+1)); sleep 0.2; done";

/// What the steps work on.
struct Stage {
    node: Arc<Node>,
    registry: Registry,
    cri: Cri,
}

/// The pod and its two containers.
struct Pod {
    id: String,
    ip: String,
    web: String,
    ticker: String,
}

/// Everything, and then everything taken down again unless it is to be kept.
pub(crate) async fn run(screen: &mut Screen, keep: bool) -> anyhow::Result<()> {
    let stage = start(screen).await?;
    let shown = show(screen, &stage).await;
    if keep && shown.is_ok() {
        return stay(screen, stage);
    }
    let left = screen.step("take it all down", async { Ok(stage.node.finish().await) }).await?;
    shown?;
    if !left.is_empty() {
        bail!("not everything is gone:\n{}", left.join("\n"));
    }
    screen.fact("left behind", "no process, mount, netns, cgroup, link or nft table");
    screen.done("a pod from registry to kernel, and nothing left");
    Ok(())
}

async fn start(screen: &mut Screen) -> anyhow::Result<Stage> {
    let node = Arc::new(Node::prepare(Settings::default())?);
    screen.step("start a private berthd", node.start_daemon()).await?;
    let cri = node.cri().await?;
    let version = cri.clone().version().await?;
    let pid = node.daemon_pid().unwrap_or_default();
    screen.fact("runtime", &format!("{} {}", version.runtime_name, version.runtime_version));
    screen.fact("socket", &node.socket().display().to_string());
    screen.fact("memory", &format!("{} KiB PSS", procfs::pss_kib(pid).unwrap_or(0)));
    let serve = async {
        let registry = Registry::start().await?;
        registry.push("hello", "1", &samples::web(PAGE)?);
        // Slow enough to see it come.
        registry.fail(Fault::on("/blobs/", Act::Throttle(4 << 20)));
        node.mirror("registry.demo.test", &registry)?;
        Ok(registry)
    };
    let registry = screen.step("make an image of two layers and serve it", serve).await?;
    screen.fact("registry", &format!("http://{}, known as registry.demo.test", registry.host()));
    Ok(Stage { node, registry, cri })
}

async fn show(screen: &mut Screen, stage: &Stage) -> anyhow::Result<()> {
    pull(screen, stage).await?;
    let pod = run_pod(screen, stage).await?;
    ask(screen, &pod, "ask the pod over HTTP").await?;
    look_inside(screen, stage, &pod).await?;
    kill_and_restart(screen, stage, &pod).await
}

async fn pull(screen: &mut Screen, stage: &Stage) -> anyhow::Result<()> {
    let mut cri = stage.cri.clone();
    let pull = async { Ok(cri.pull(IMAGE).await?) };
    let id = screen.step("pull it", pull).await?;
    screen.fact("image", &id);
    for seen in stage.registry.seen() {
        screen.fact("fetched", &format!("{} {}", seen.method, short(&seen.path)));
    }
    let image = stage.cri.clone().image_status(IMAGE).await?.context("the image is not listed")?;
    screen.fact("unpacked", &format!("{} KiB", image.size / 1024));
    Ok(())
}

/// A path with its digest cut to what one can read.
fn short(path: &str) -> String {
    match path.split_once("sha256:") {
        Some((head, digest)) => format!("{head}sha256:{}…", digest.get(..12).unwrap_or(digest)),
        None => path.to_owned(),
    }
}

async fn run_pod(screen: &mut Screen, stage: &Stage) -> anyhow::Result<Pod> {
    let config = podspec::pod(&stage.node, "hello");
    let mut cri = stage.cri.clone();
    let id = screen.step("run a pod", async { Ok(cri.run_pod(&config).await?) }).await?;
    stage.node.remember(&id);
    let ip = cri.pod(&id).await?.network.map(|network| network.ip).unwrap_or_default();
    screen.fact("pod", &id);
    screen.fact("ip", &ip);
    let web = podspec::container("web", IMAGE, &[]);
    let ticker = podspec::container("ticker", IMAGE, &["sh", "-c", TICKER]);
    let ticker = podspec::with_resources(
        ticker,
        wire::LinuxContainerResources { memory_limit_in_bytes: 32 << 20, ..Default::default() },
    );
    let start = async {
        let mut ids = Vec::new();
        for container in [&web, &ticker] {
            let container = cri.create(&id, container, &config).await?;
            stage.node.remember(&container);
            cri.start(&container).await?;
            ids.push(container);
        }
        Ok(ids)
    };
    let ids = screen.step("create and start two containers", start).await?;
    let [web, ticker] = ids.try_into().map_err(|_| anyhow::anyhow!("not two containers"))?;
    screen.fact("containers", &format!("{web}\n{ticker}"));
    Ok(Pod { id, ip, web, ticker })
}

async fn ask(screen: &mut Screen, pod: &Pod, title: &str) -> anyhow::Result<()> {
    let answer = screen.step(title, get(&pod.ip)).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    screen.fact("status", head.lines().next().unwrap_or_default());
    screen.fact("body", body.trim());
    if body == PAGE { Ok(()) } else { bail!("the page says {body:?}") }
}

/// One GET; the server may need a moment to listen.
async fn get(ip: &str) -> anyhow::Result<String> {
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect((ip, 80)).await {
            Ok(stream) => break stream,
            Err(error) if begun.elapsed() > Duration::from_secs(5) => {
                return Err(error).with_context(|| format!("connecting to {ip}:80"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    stream.write_all(b"GET / HTTP/1.0\r\nHost: hello\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn look_inside(screen: &mut Screen, stage: &Stage, pod: &Pod) -> anyhow::Result<()> {
    let mut cri = stage.cri.clone();
    let log = screen.step("read the log that the shim writes", log(stage, 4)).await?;
    screen.fact("log", &log.lines().take(4).collect::<Vec<_>>().join("\n"));
    let command = ["sh", "-c", "hostname; id -u; grep Seccomp: /proc/self/status"];
    let exec = async { Ok(cri.exec(&pod.web, &command, 10).await?) };
    let answer = screen.step("exec in a container", exec).await?;
    screen.fact("exit code", &answer.exit_code.to_string());
    screen.fact("said", String::from_utf8_lossy(&answer.stdout).trim());
    let stats = async { Ok(cri.stats(&pod.ticker).await?) };
    let stats = screen.step("ask for CPU and memory", stats).await?;
    let cpu = stats.cpu.and_then(|cpu| cpu.usage_core_nano_seconds).map_or(0, |v| v.value);
    let memory = stats.memory.and_then(|m| m.working_set_bytes).map_or(0, |v| v.value);
    screen.fact("cpu", &time(Duration::from_nanos(cpu)));
    screen.fact("memory", &format!("{} KiB working set, limit 32 MiB", memory / 1024));
    for shim in shims(stage) {
        let pss = procfs::pss_kib(shim.pid).unwrap_or(0);
        screen.fact("shim", &format!("pid {}, {pss} KiB PSS", shim.pid));
    }
    Ok(())
}

/// The shims of this node.
fn shims(stage: &Stage) -> Vec<procfs::Process> {
    let name = stage.node.tag().name();
    let all = procfs::processes().into_iter();
    all.filter(|p| p.command.contains("berth-shim") && p.command.contains(&name)).collect()
}

async fn log(stage: &Stage, lines: usize) -> anyhow::Result<String> {
    let path = podspec::log(&stage.node, "hello", "ticker");
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.lines().count() >= lines {
            return Ok(text);
        }
        if begun.elapsed() > Duration::from_secs(10) {
            bail!("{} has fewer than {lines} lines", path.display());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn kill_and_restart(screen: &mut Screen, stage: &Stage, pod: &Pod) -> anyhow::Result<()> {
    let before = procfs::init_of(&pod.web).context("the web server has no process")?;
    screen.step("kill -9 the daemon", stage.node.kill_daemon()).await?;
    ask(screen, pod, "ask the pod again, with no daemon").await?;
    let lines = log(stage, 1).await?.lines().count();
    let grown = screen.step("watch the log grow, with no daemon", log(stage, lines + 2)).await?;
    screen.fact("log", grown.lines().last().unwrap_or_default());
    screen.step("start the daemon again", stage.node.start_daemon()).await?;
    let mut cri = stage.cri.clone();
    let status = cri.pod(&pod.id).await?;
    screen.fact("pod", &format!("{:?}, {}", status.state(), pod.id));
    for (name, id) in [("web", &pod.web), ("ticker", &pod.ticker)] {
        let status = cri.container(id).await?;
        let attempt = status.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        screen.fact(name, &format!("{:?}, attempt {attempt}", status.state()));
        if status.state() != wire::ContainerState::ContainerRunning {
            bail!("{name} is {:?} after the restart", status.state());
        }
    }
    let after = procfs::init_of(&pod.web).context("the web server has no process")?;
    screen.fact("same pid", &format!("{before} before, {after} after"));
    if before == after { Ok(()) } else { bail!("the web server is another process") }
}

/// Leaves the node running and says how to look at it, and how to end it.
fn stay(screen: &Screen, stage: Stage) -> anyhow::Result<()> {
    screen.done("kept running");
    println!("\nLook at it:\n    {} pods", stage.node.crictl()?.line());
    println!("Take it down:\n    cargo xtask clean");
    // Dropped, a node takes everything down; this one is to outlive us.
    std::mem::forget(stage.node);
    Ok(())
}
