//! What a container says reaches its log, whole and once.

use std::fs;
use std::time::Duration;

use berth_proto::shim::{ReopenLogRequest, StartRequest};
use serde_json::json;

use crate::bundle::Bundle;
use crate::harness::{LIMIT, Shim};

#[tokio::test(flavor = "current_thread")]
async fn rotation_loses_no_line_and_splits_none() {
    let Some(shim) = Shim::start("rotate").await else { return };
    let bundle = Bundle::new(
        &shim,
        "a",
        &["sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"],
    );
    shim.run(&bundle).await;
    let mut parts = Vec::new();
    for part in 0..10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let old = shim.directory.join(format!("0.log.{part}"));
        fs::rename(bundle.log_path(), &old).unwrap();
        parts.push(old);
        shim.client.reopen_log(&ReopenLogRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    }
    shim.exit(&bundle.id).await;
    parts.push(bundle.log_path());
    shim.client.reopen_log(&ReopenLogRequest { id: bundle.id.clone() }, LIMIT).await.expect("in any state");
    let all: Vec<u8> = parts.iter().flat_map(|part| fs::read(part).unwrap()).collect();
    let lines: Vec<_> = all
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| berth_core::log::parse(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 20_000);
    for (n, line) in lines.iter().enumerate() {
        assert!(line.full && line.content == format!("line {n}").as_bytes());
    }
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn instant_exits_keep_their_last_words() {
    let Some(shim) = Shim::start("instant").await else { return };
    for n in 0..20 {
        let bundle =
            Bundle::new(&shim, &format!("{n:x}"), &["sh", "-c", "printf 'a\\nb'; printf 'c\\nd' >&2"]);
        shim.run(&bundle).await;
        assert_eq!(shim.exit(&bundle.id).await.code, 0);
        assert_eq!(bundle.log(), ["stdout F a", "stdout F b", "stderr F c", "stderr F d"]);
    }
    shim.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_terminal_logs_too() {
    let Some(shim) = Shim::start("tty").await else { return };
    let mut bundle = Bundle::new(&shim, "a", &["sh", "-c", "test -t 0 && test -t 1 && echo terminal"]);
    bundle.config()["process"]["terminal"] = json!(true);
    bundle.config()["mounts"].as_array_mut().unwrap().push(
        json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666", "mode=0620"] }),
    );
    let mut request = bundle.request();
    request.tty = true;
    shim.client.create(&request, LIMIT).await.unwrap();
    shim.client.start(&StartRequest { id: bundle.id.clone() }, LIMIT).await.unwrap();
    assert_eq!(shim.exit(&bundle.id).await.code, 0);
    assert_eq!(bundle.log(), ["stdout F terminal"]);
    shim.end().await;
}
