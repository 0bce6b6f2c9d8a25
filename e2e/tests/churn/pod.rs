//! One worker of the churn: pod after pod, each with a container that counts and ends with a code of its own.

use super::killer::Killer;
use super::over;
use anyhow::{Context as _, Result, bail};
use berth_e2e::churn::Chance;
use berth_e2e::cri::Cri;
use berth_e2e::harness::{Bed, Pod};
use berth_e2e::{check, podspec};
use berth_proto::cri as wire;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// What a worker did.
#[derive(Default)]
pub(super) struct Done {
    pub(super) pods: usize,
    pub(super) problems: Vec<String>,
}

/// What one container is to do.
struct Part {
    lines: u64,
    code: i32,
    stopped: bool,
    exec: bool,
}

/// Works until the churn is over.
pub(super) async fn work(bed: Arc<Bed>, killer: Arc<Killer>, mut chance: Chance, number: usize) -> Done {
    let mut done = Done::default();
    while !over(&killer.over) {
        let name = format!("w{number}-{}", done.pods);
        let part = Part {
            lines: chance.within(1..300),
            code: i32::try_from(chance.within(0..100)).unwrap_or(0),
            stopped: chance.percent(25),
            exec: chance.percent(40),
        };
        let played = play(&bed, &killer, &name, &part).await;
        if let Err(error) = played {
            done.problems.push(format!("{name}: {error:#}"));
        }
        if let Err(error) = away(&bed, &name).await {
            done.problems.push(format!("{name} cannot be removed: {error:#}"));
        }
        done.pods += 1;
    }
    done
}

async fn play(bed: &Bed, killer: &Killer, name: &str, part: &Part) -> Result<()> {
    let Some(pod) = make_pod(bed, name).await? else { return Ok(()) };
    let script = format!(
        "i=0; while [ $i -lt {} ]; do echo $i; i=$((i+1)); usleep 2000; done; exit {}",
        part.lines, part.code
    );
    let outcome = container(bed, &pod, &script, part).await;
    match outcome {
        Ok((log, status)) => judge(&log, &status, part, killer.took(&pod.id)),
        // A pod whose shim was killed may refuse anything but its end.
        Err(_) if killer.took(&pod.id) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The log's lines and the last status.
async fn container(
    bed: &Bed,
    pod: &Pod,
    script: &str,
    part: &Part,
) -> Result<(String, wire::ContainerStatus)> {
    let image = bed.image("busybox:1");
    let mut config = podspec::container("count", &image, &["sh", "-c", script]);
    podspec::join(&mut config, &pod.config);
    let id = create(bed, pod, &mut config).await.context("CreateContainer")?;
    start(bed, &id).await.context("StartContainer")?;
    if part.exec {
        let answer = patient(bed, |mut cri| {
            let id = id.clone();
            async move { cri.exec(&id, &["echo", "here"], 10).await }
        });
        // It may have ended meanwhile; an answer must be right.
        if let Ok(answer) = answer.await {
            let right = answer.exit_code == 0 && answer.stdout == b"here\n";
            check!(right || answer.exit_code == 137, "exec: {answer:?}");
        }
    }
    if part.stopped {
        patient(bed, |mut cri| {
            let id = id.clone();
            async move { cri.stop(&id, 0).await }
        })
        .await
        .context("StopContainer")?;
    }
    let status = ended(bed, &id).await?;
    let log = std::path::Path::new(&pod.config.log_directory).join(&config.log_path);
    Ok((std::fs::read_to_string(&log).with_context(|| log.display().to_string())?, status))
}

/// Lines 0, 1, 2, … each once, up to the end if it came by itself; the code that was asked for, or that of a kill.
fn judge(log: &str, status: &wire::ContainerStatus, part: &Part, lost: bool) -> Result<()> {
    let killed = lost || part.stopped;
    let lines: Vec<&str> = log.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).collect();
    for (at, said) in lines.iter().enumerate() {
        // A killed writer's last line may end anywhere.
        let cut = killed && at + 1 == lines.len();
        check!(cut || said.parse() == Ok(at), "line {at} of the log says {said:?}");
    }
    let code = status.exit_code;
    if killed && code != part.code {
        check!(code == 137 || code == 143, "killed, ended with {code}: {status:?}");
        return Ok(());
    }
    check!(code == part.code, "ended with {code} instead of {}: {status:?}", part.code);
    let count = u64::try_from(lines.len())?;
    check!(lost || count == part.lines, "{count} lines of {}", part.lines);
    Ok(())
}

/// None if no try got it up, which only a killed shim explains.
async fn make_pod(bed: &Bed, name: &str) -> Result<Option<Pod>> {
    let mut config = podspec::pod(&bed.node, name);
    for attempt in 0..8 {
        if let Some(metadata) = &mut config.metadata {
            metadata.attempt = attempt;
        }
        let made = patient(bed, |mut cri| {
            let config = config.clone();
            async move { cri.run_pod(&config).await }
        });
        if let Ok(id) = made.await {
            bed.node.remember(&id);
            return Ok(Some(Pod { id, config }));
        }
    }
    Ok(None)
}

async fn create(bed: &Bed, pod: &Pod, config: &mut wire::ContainerConfig) -> Result<String> {
    let mut last = None;
    for attempt in 0..8 {
        if let Some(metadata) = &mut config.metadata {
            metadata.attempt = attempt;
        }
        config.log_path = format!("count.{attempt}.log");
        let made = patient(bed, |mut cri| {
            let (pod, config) = (pod.clone(), config.clone());
            async move { cri.create(&pod.id, &config, &pod.config).await }
        });
        match made.await {
            Ok(id) => {
                bed.node.remember(&id);
                return Ok(id);
            }
            Err(status) => last = Some(status),
        }
    }
    bail!("eight tries: {last:?}")
}

/// A start whose answer was lost may have happened.
async fn start(bed: &Bed, id: &str) -> Result<()> {
    let started = patient(bed, |mut cri| {
        let id = id.to_owned();
        async move { cri.start(&id).await }
    });
    let Err(refused) = started.await else { return Ok(()) };
    let status = patient(bed, |mut cri| {
        let id = id.to_owned();
        async move { cri.container(&id).await }
    });
    match status.await?.state() {
        wire::ContainerState::ContainerRunning | wire::ContainerState::ContainerExited => Ok(()),
        _ => Err(refused.into()),
    }
}

async fn ended(bed: &Bed, id: &str) -> Result<wire::ContainerStatus> {
    let begun = Instant::now();
    loop {
        let status = patient(bed, |mut cri| {
            let id = id.to_owned();
            async move { cri.container(&id).await }
        });
        let status = status.await.context("ContainerStatus")?;
        if status.state() == wire::ContainerState::ContainerExited {
            return Ok(status);
        }
        check!(begun.elapsed() < Duration::from_secs(30), "it does not end: {status:?}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Every pod of this name goes, as a kubelet makes old attempts go.
async fn away(bed: &Bed, name: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let gone = remove_all(bed, name).await;
        match gone {
            Ok(()) => return Ok(()),
            Err(error) if begun.elapsed() > Duration::from_secs(30) => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn remove_all(bed: &Bed, name: &str) -> Result<()> {
    let mut cri = bed.cri().await?;
    for pod in cri.pods().await? {
        bed.node.remember(&pod.id);
        if pod.metadata.as_ref().is_some_and(|metadata| metadata.name == name) {
            cri.stop_pod(&pod.id).await?;
            cri.remove_pod(&pod.id).await?;
        }
    }
    Ok(())
}

/// Asks again while the daemon is away.
async fn patient<T, F: Future<Output = Result<T, Status>>>(
    bed: &Bed,
    call: impl Fn(Cri) -> F,
) -> Result<T, Status> {
    let begun = Instant::now();
    loop {
        let answer = match bed.cri().await {
            Ok(cri) => call(cri).await,
            Err(error) => Err(Status::unavailable(format!("{error:#}"))),
        };
        match answer {
            Err(status) if away_now(&status) && begun.elapsed() < Duration::from_secs(20) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer,
        }
    }
}

/// No daemon, or one that ended in the middle of the answer.
fn away_now(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Unknown)
}
