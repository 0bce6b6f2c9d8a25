//! Container logs as the kubelet reads them: form, partial lines, last words, reopening.

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context, Pod};
use berth_e2e::{check, podspec, tests};
use berth_proto::cri as wire;

tests![line_form, long_lines, last_words, reopening, logs_flow_without_daemon];

fn raw(bed: &Bed, pod: &Pod, name: &str) -> Result<String> {
    let pod = pod.config.metadata.as_ref().map_or("", |m| m.name.as_str());
    let path = podspec::log(&bed.node, pod, name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

async fn line_form(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("lines").await?;
    let id = bed.busybox_in(&pod, "c", "echo one; echo two >&2; echo; printf three").await?;
    bed.ended(&id).await?;
    let text = raw(&bed, &pod, "c")?;
    let mut out = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        check!(fields.len() == 4, "{line:?}");
        let time = fields[0];
        // 2026-11-30T16:51:28.123456789Z, nine digits always.
        check!(time.len() == 30 && time.ends_with('Z') && &time[10..11] == "T", "time {time:?}");
        check!(fields[2] == "F", "{line:?}");
        out.push(format!("{} {}", fields[1], fields[3]));
    }
    // The two streams are two pipes: only the order within each is certain.
    out.sort();
    check!(out == ["stderr two", "stdout ", "stdout one", "stdout three"], "{text:?}");
    Ok(())
}

async fn long_lines(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("long").await?;
    let id = bed.busybox_in(&pod, "c", "head -c 1048576 /dev/zero | tr '\\0' x").await?;
    bed.ended(&id).await?;
    let text = raw(&bed, &pod, "c")?;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(4, ' ').collect()).collect();
    let whole: usize = lines.iter().map(|fields| fields[3].len()).sum();
    check!(whole == 1 << 20, "{whole} bytes of 1048576");
    let (last, rest) = lines.split_last().context("no lines")?;
    check!(last[2] == "F" && rest.iter().all(|fields| fields[2] == "P"), "marks");
    check!(rest.len() > 10, "the line came in {} pieces", lines.len());
    Ok(())
}

/// The last chunk of a process that ends at once, with no newline.
async fn last_words(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("words").await?;
    for number in 0..40 {
        let name = format!("c{number}");
        let id = bed.busybox_in(&pod, &name, "printf 'a\\nb'; printf 'c\\nd' >&2").await?;
        bed.ended(&id).await?;
        let text = raw(&bed, &pod, &name)?;
        for word in ["stdout F a", "stdout F b", "stderr F c", "stderr F d"] {
            check!(text.contains(word), "{number}: {word:?} is not in {text:?}");
        }
        bed.cri().await?.remove(&id).await?;
    }
    Ok(())
}

async fn reopening(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("rotate").await?;
    let id = bed.busybox_in(&pod, "c", "i=0; while true; do echo $i; i=$((i+1)); usleep 10000; done").await?;
    let path = podspec::log(&bed.node, "rotate", "c");
    let mut pieces = Vec::new();
    for number in 0..5 {
        bed.log(&pod, "c", 10).await?;
        let moved = path.with_extension(format!("log.{number}"));
        std::fs::rename(&path, &moved)?;
        let request = wire::ReopenContainerLogRequest { container_id: id.clone() };
        bed.cri().await?.runtime.reopen_container_log(request).await?;
        pieces.push(moved);
    }
    bed.cri().await?.stop(&id, 0).await?;
    pieces.push(path);
    let mut count = 0;
    for piece in pieces {
        for line in std::fs::read_to_string(piece)?.lines() {
            let said = line.splitn(4, ' ').nth(3).unwrap_or_default();
            check!(said == count.to_string(), "line {count} says {said:?}");
            count += 1;
        }
    }
    let request = wire::ReopenContainerLogRequest { container_id: id };
    check!(bed.cri().await?.runtime.reopen_container_log(request).await.is_err(), "it has ended");
    Ok(())
}

async fn logs_flow_without_daemon(context: Context) -> Result<()> {
    let bed = context.bed().await?;
    let pod = bed.pod("alone").await?;
    let script = "while [ ! -e /dev/shm/go ]; do usleep 2000; done; yes 0123456789 | head -n 200000; touch /dev/shm/done; sleep 1000";
    bed.busybox_in(&pod, "c", script).await?;
    let helper = bed.busybox_in(&pod, "helper", "sleep 1000").await?;
    bed.exec(&helper, "touch /dev/shm/go").await?;
    bed.node.kill_daemon().await?;
    // 2.2 MB are far more than pipes hold: without a reader the application would block.
    let written = bed.log(&pod, "c", 200_000).await?.lines().count();
    check!(written == 200_000, "{written} lines");
    bed.node.start_daemon().await?;
    check!(bed.exec(&helper, "ls /dev/shm").await?.contains("done"), "the application is blocked");
    Ok(())
}
