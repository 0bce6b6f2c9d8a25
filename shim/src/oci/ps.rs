//! `ps`: the processes of a container.

use std::ffi::OsString;
use std::process::Command;

use super::container::Container;
use super::flags::Flag;
use super::{About, Global, OciError, flags};

const FLAGS: &[Flag] = &[Flag::value("format", "f")];

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(FLAGS, args)?;
    let pids = Container::load(global, flags.id()?)?.cgroup()?.procs()?;
    match flags.value("format").unwrap_or("table") {
        "json" => {
            println!("{}", serde_json::json!(pids));
            Ok(())
        }
        "table" => table(&pids, &flags.rest[1..]),
        other => Err(OciError::Usage(format!("--format: {other:?} is neither table nor json"))),
    }
}

/// The lines of the host's ps that are about these processes.
fn table(pids: &[i32], options: &[String]) -> Result<(), OciError> {
    let default = ["-ef".to_owned()];
    let options = if options.is_empty() { &default } else { options };
    let output = Command::new("ps").args(options).output().about("run", "ps")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let Some(head) = lines.next() else { return Ok(()) };
    let Some(column) = head.split_whitespace().position(|word| word == "PID") else {
        return Err(OciError::Usage("the options of ps show no column PID".into()));
    };
    println!("{head}");
    for line in lines {
        let pid = line.split_whitespace().nth(column).and_then(|word| word.parse().ok());
        if pid.is_some_and(|pid| pids.contains(&pid)) {
            println!("{line}");
        }
    }
    Ok(())
}
