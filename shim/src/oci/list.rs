//! `list`: every container.

use std::ffi::OsString;

use super::container::{Container, Shown};
use super::flags::Flag;
use super::{Global, OciError, flags};

const FLAGS: &[Flag] = &[Flag::value("format", "f"), Flag::switch("quiet", "q")];

pub(crate) fn main(global: &Global, args: Vec<OsString>) -> Result<(), OciError> {
    let flags = flags::parse(FLAGS, args)?;
    flags.at_most(0)?;
    let mut names: Vec<String> = std::fs::read_dir(&global.root)
        .map(|entries| entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    if !names.is_empty() {
        super::container::must_be_found_again()?;
    }
    names.sort();
    let all: Vec<Shown> = names.iter().filter_map(|id| loaded(global, id)).map(|c| c.shown()).collect();
    if flags.is_set("quiet") {
        all.iter().for_each(|c| println!("{}", c.id));
        return Ok(());
    }
    match flags.value("format").unwrap_or("table") {
        "json" => {
            let text = serde_json::to_string(&all)
                .map_err(|error| OciError::Json { path: "output".to_owned(), error })?;
            println!("{text}");
            Ok(())
        }
        "table" => {
            println!("{:<20} {:<8} {:<10} {:<32} {:<32} OWNER", "ID", "PID", "STATUS", "BUNDLE", "CREATED");
            for c in &all {
                println!(
                    "{:<20} {:<8} {:<10} {:<32} {:<32} {}",
                    c.id, c.pid, c.status, c.bundle, c.created, c.owner
                );
            }
            Ok(())
        }
        other => Err(OciError::Usage(format!("--format: {other:?} is neither table nor json"))),
    }
}

/// One that is being made, or that somebody deletes meanwhile, is not there; one that cannot be read is told of.
fn loaded(global: &Global, id: &str) -> Option<Container> {
    match Container::load(global, id) {
        Ok(container) => Some(container),
        Err(error) => {
            if global.root.join(id).join("state.json").exists() {
                let text = format!("container {id}: {error}");
                global.log.warn(&text);
                eprintln!("berth-oci: {text}");
            }
            None
        }
    }
}
