//! The inventory of fault points, and how a test arms them where a flag allows it: by the environment at the start, by
//! a socket later.

use berth_core::fault::{ArmError, Point, arm_text};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Every crate's and module's list.
const LISTS: &[&[&Point]] = &[
    berth_network::faults::FAULTS,
    berth_store::FAULTS,
    crate::pod::faults::FAULTS,
    crate::service::image::FAULTS,
];

/// Every fault point, sorted by name.
#[must_use]
pub fn inventory() -> Vec<&'static Point> {
    let mut points: Vec<&'static Point> = LISTS.iter().flat_map(|list| list.iter().copied()).collect();
    points.sort_by_key(|point| point.name());
    points
}

/// The inventory as lines for people and scripts: name, tab, what lies around it.
#[must_use]
pub fn text() -> String {
    inventory().iter().map(|point| format!("{}\t{}\n", point.name(), point.what())).collect()
}

/// Arms what BERTH_FAULTS asks for.
///
/// # Errors
/// It names no point or cannot be read.
pub fn arm_from_environment() -> Result<(), ArmError> {
    match std::env::var("BERTH_FAULTS") {
        Ok(wish) => {
            tracing::warn!(%wish, "fault points are armed: this daemon fails on purpose");
            arm_text(&wish, &inventory())
        }
        Err(_) => Ok(()),
    }
}

/// Arms points by a socket: a line is a text as in BERTH_FAULTS, or `hits`, which tells how often each point acted. A
/// thread of its own answers, so that it can release whoever is held.
///
/// # Errors
/// The socket cannot be bound.
pub fn listen(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::thread::Builder::new().name("faults".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that went away needs no answer.
            let _ = answer(&stream);
        }
    })?;
    Ok(())
}

fn answer(mut stream: &UnixStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let said = match line.trim() {
        "hits" => inventory().iter().map(|point| format!("{}\t{}\n", point.name(), point.hits())).collect(),
        text => match arm_text(text, &inventory()) {
            Ok(()) => "ok\n".to_owned(),
            Err(error) => format!("{error}\n"),
        },
    };
    stream.write_all(said.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_arms_and_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("faults.sock");
        listen(&path).unwrap();
        let ask = |text: &str| {
            let mut stream = UnixStream::connect(&path).unwrap();
            writeln!(stream, "{text}").unwrap();
            io::read_to_string(stream).unwrap()
        };
        assert!(ask("no.such=fail").contains("no.such"));
        assert_eq!(ask("exec.begun=note"), "ok\n");
        crate::pod::faults::EXEC_BEGUN.pass().unwrap();
        assert!(ask("hits").contains("exec.begun\t1\n"));
        assert_eq!(ask("exec.begun=off"), "ok\n");
    }

    #[test]
    fn names_are_unique_and_have_an_area() {
        let points = inventory();
        assert!(points.windows(2).all(|pair| pair[0].name() < pair[1].name()), "{points:?}");
        assert!(points.iter().all(|point| point.name().contains('.') && !point.what().is_empty()));
    }
}
