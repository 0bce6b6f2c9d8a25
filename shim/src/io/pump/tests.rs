//! Pumps over real pipes.

use super::*;
use berth_core::log::parse;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::Write;
use std::path::Path;

fn records(path: &Path) -> Vec<(bool, String)> {
    let log = std::fs::read(path).unwrap();
    let lines = log.split_inclusive(|byte| *byte == b'\n');
    let read = lines.map(|line| parse(line).unwrap());
    read.map(|record| (record.full, String::from_utf8(record.content.to_vec()).unwrap())).collect()
}

fn output(path: &Path) -> (Output, File, File) {
    let (out, out_end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (err, err_end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let log = LogFile::open(path.to_owned()).unwrap();
    let streams = vec![(Stream::Stdout, out), (Stream::Stderr, err)];
    let output = Output::start(streams, log, 0, &Turns::default()).unwrap();
    (output, out_end.into(), err_end.into())
}

#[tokio::test(flavor = "current_thread")]
async fn an_unfinished_line_is_there_when_the_end_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    let (output, mut out, err) = output(&path);
    out.write_all(b"a\nb").unwrap();
    drop((out, err));
    output.drain(Duration::from_secs(9)).await;
    assert_eq!(records(&path), [(true, "a".into()), (true, "b".into())]);
}

#[tokio::test(flavor = "current_thread")]
async fn whoever_holds_the_pipe_delays_nothing_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    let (output, mut out, err) = output(&path);
    out.write_all(b"from the container").unwrap();
    let before = std::time::Instant::now();
    output.drain(Duration::from_secs(9)).await;
    assert!(before.elapsed() < Duration::from_secs(5));
    assert_eq!(records(&path), [(true, "from the container".into())]);
    out.write_all(b"late\n").unwrap();
    drop((out, err));
    let mut waited = 0;
    while records(&path).len() < 2 && waited < 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        waited += 1;
    }
    assert_eq!(records(&path)[1], (true, "late".into()));
    while lock(&output.log).is_open() && waited < 400 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        waited += 1;
    }
    assert!(!lock(&output.log).is_open(), "nothing writes any more: closed");
}

#[tokio::test(flavor = "current_thread")]
async fn a_mebibyte_without_a_newline_joins_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    let (output, mut out, err) = output(&path);
    let writer = std::thread::spawn(move || out.write_all(&vec![b'x'; 1 << 20]));
    drop(err);
    tokio::task::yield_now().await;
    while !writer.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    writer.join().unwrap().unwrap();
    output.drain(Duration::from_secs(9)).await;
    let records = records(&path);
    assert_eq!(records.len(), 64);
    assert!(records.iter().rev().skip(1).all(|(full, text)| !full && text.len() == 16_384));
    assert_eq!(records.last().map(|(full, text)| (*full, text.len())), Some((true, 16_384)));
}

/// A log whose file system hangs costs the container its output's progress and the shim nothing.
#[tokio::test(flavor = "current_thread")]
async fn a_write_that_hangs_holds_no_loop() {
    let (drain, hung) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (out, out_end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let log = LogFile::over(hung.into());
    let output = Output::start(vec![(Stream::Stdout, out)], log, 0, &Turns::default()).unwrap();
    let mut out_end = File::from(out_end);
    let filler = std::thread::spawn(move || out_end.write_all(&b"0123456789\n".repeat(30_000)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = std::time::Instant::now();
    output.drain(Duration::from_millis(100)).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "the loop was held");
    let reader = std::thread::spawn(move || std::io::read_to_string(File::from(drain)));
    output.finish(Duration::from_secs(20)).await;
    filler.join().unwrap().unwrap();
    drop(output);
    let log = reader.join().unwrap().unwrap();
    assert_eq!(log.lines().count(), 30_000, "and nothing was lost");
}
