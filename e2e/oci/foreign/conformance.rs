//! critest against a containerd that uses the product, beside one that uses its own shim with runc.

use anyhow::Result;
use berth_e2e::critest::{Results, of, run};
use berth_e2e::harness::Context;
use berth_e2e::node::{LowLevel, NetworkMode, Settings};
use berth_e2e::samples::critest;
use berth_e2e::{check, tests};

tests![; minutes 15 [shim, oci]; long [whole]];

/// What a runtime is about: life cycle, streams, signals, limits, security. The images and the network are not ours.
const FOCUS: &str = "runtime should support (basic|exec|starting|stopping|removing|adding)|Streaming|\
                     runtime should support (capability|RunAs|Privileged|NoNewPrivs|.*[Rr]ead|seccomp|log)|\
                     metrics|should support (exec|attach)|SupplementalGroups|HostPID|HostIpc|\
                     PodPID|ContainerPID|propagation|OOM|sysctls";

async fn shim(context: Context) -> Result<()> {
    compare(&context, LowLevel::BerthShim, Some(FOCUS)).await
}

async fn oci(context: Context) -> Result<()> {
    compare(&context, LowLevel::BerthOci, Some(FOCUS)).await
}

async fn whole(context: Context) -> Result<()> {
    compare(&context, LowLevel::BerthShim, None).await?;
    compare(&context, LowLevel::BerthOci, None).await
}

/// No spec that passes with runc may fail with the product.
async fn compare(context: &Context, low_level: LowLevel, focus: Option<&str>) -> Result<()> {
    let theirs = specs(context, LowLevel::Runc, focus).await?;
    let ours = specs(context, low_level, focus).await?;
    let passed = of(&ours, "passed");
    let known = of(&theirs, "passed");
    println!("critest with containerd: {} pass with runc, {} with {low_level:?}", known.len(), passed.len());
    of(&ours, "failed").iter().for_each(|name| println!("critest: fails with {low_level:?}: {name}"));
    of(&theirs, "failed").iter().for_each(|name| println!("critest: fails with runc: {name}"));
    let mut lost: Vec<&str> = known.iter().copied().filter(|name| !passed.contains(name)).collect();
    if !lost.is_empty() {
        // Some specs wait for a fixed time, which a busy machine may not keep: those are run once more, by themselves.
        println!("critest: once more with {low_level:?}: {lost:#?}");
        let again = specs(context, low_level, Some(&focus_on(&lost))).await?;
        lost.retain(|name| !of(&again, "passed").contains(name));
    }
    check!(lost.is_empty(), "pass with runc and not with {low_level:?}:\n{}", lost.join("\n"));
    check!(known.len() > 10, "so few specs say nothing: {known:#?}");
    Ok(())
}

const LABELS: [&str; 2] = [" [Conformance]", " [Serial]"];

/// The expression that matches these specs; labels at a name's end are not matched against.
fn focus_on(names: &[&str]) -> String {
    let escaped = |name: &&str| -> String {
        let mut bare = *name;
        while let Some(shorter) = LABELS.iter().find_map(|label| bare.strip_suffix(label)) {
            bare = shorter;
        }
        bare.chars()
            .flat_map(|c| [(!c.is_alphanumeric() && c != ' ').then_some('\\'), Some(c)])
            .flatten()
            .collect()
    };
    names.iter().map(escaped).collect::<Vec<_>>().join("|")
}

async fn specs(context: &Context, low_level: LowLevel, focus: Option<&str>) -> Result<Results> {
    let settings = Settings { network: NetworkMode::Cni, ..Settings::containerd(low_level) };
    let bed = context.bed_with(settings).await?;
    critest::serve(&bed.registry)?;
    for host in critest::HOSTS {
        bed.node.mirror(host, &bed.registry)?;
    }
    let results = run(&bed.node, focus).await;
    let stopped = bed.node.remove_everything().await;
    let results = results?;
    stopped?;
    Ok(results)
}
