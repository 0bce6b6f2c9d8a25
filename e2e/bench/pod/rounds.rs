//! One pod after the other, each side in turn, so that the machine's mood falls on all alike.

use crate::side::Side;
use crate::timing::Samples;
use std::time::{Duration, Instant};

/// Times of every side.
pub(crate) async fn run(sides: &[Side], rounds: usize) -> anyhow::Result<Vec<Samples>> {
    let mut samples: Vec<Samples> = sides.iter().map(|_| Samples::default()).collect();
    for round in 0..rounds + 2 {
        for (side, samples) in sides.iter().zip(&mut samples) {
            let mut scratch = Samples::default();
            // The first two rounds warm the caches of both.
            let into = if round < 2 { &mut scratch } else { samples };
            one(side, &format!("round{round}"), into).await?;
            // A move between cgroups after a pause is the dear one: it is what a node sees.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(samples)
}

async fn one(side: &Side, name: &str, samples: &mut Samples) -> anyhow::Result<()> {
    let mut cri = side.cri.clone();
    let pod_config = side.pod(name);
    let config = side.container(&pod_config);
    let begun = Instant::now();
    let pod = samples.time("RunPodSandbox", cri.run_pod(&pod_config)).await?;
    side.node.remember(&pod);
    let id = samples.time("CreateContainer", cri.create(&pod, &config, &pod_config)).await?;
    side.node.remember(&id);
    samples.time("StartContainer", cri.start(&id)).await?;
    samples.keep("pod + container to running", begun.elapsed());
    for _ in 0..3 {
        let begun = Instant::now();
        cri.clone().version().await?;
        let empty = begun.elapsed();
        let begun = Instant::now();
        let answer = cri.exec(&id, &["true"], 10).await?;
        anyhow::ensure!(answer.exit_code == 0, "`true` ended with {}", answer.exit_code);
        samples.keep("ExecSync `true` above an empty call", begun.elapsed().saturating_sub(empty));
    }
    let begun = Instant::now();
    samples.time("StopContainer, no grace", cri.stop(&id, 0)).await?;
    samples.time("StopPodSandbox", cri.stop_pod(&pod)).await?;
    samples.time("RemoveContainer", cri.remove(&id)).await?;
    samples.time("RemovePodSandbox", cri.remove_pod(&pod)).await?;
    samples.keep("stop and remove all", begun.elapsed());
    Ok(())
}
