//! A program that takes a container's output: `binary:///path?argument=value`. It finds the two streams as descriptors
//! 3 and 4 and says on 5 that it is ready.

use std::ffi::CString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use berth_sys::namespace::Namespaces;
use berth_sys::spawn::{Child, Plan, spawn};
use rustix::fs::{Mode, OFlags};

use crate::blocking;
use crate::error::{CallError, Step};
use crate::v2::shim::Shim;

/// A logger has so long to bring away the last of the output after it was asked to end.
const END_MAX: Duration = Duration::from_secs(10);

/// The kernel reads so much of a script.
const SCRIPT_HEAD_MAX: u64 = 256;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// The program and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Uri {
    path: String,
    arguments: Vec<String>,
    /// Whether it has to say that it is ready, or may also just close the descriptor.
    strict: bool,
}

/// A running logger.
#[derive(Debug)]
pub(super) struct Logger(Child);

/// Reads `binary://` and `binary-v2://`; none for anything else.
pub(super) fn uri(text: &str) -> Option<Uri> {
    let (rest, strict) = match text.strip_prefix("binary://") {
        Some(rest) => (rest, false),
        None => (text.strip_prefix("binary-v2://")?, true),
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut arguments = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        arguments.push(decode(name));
        arguments.extend(Some(decode(value)).filter(|value| !value.is_empty()));
    }
    Some(Uri { path: decode(path), arguments, strict })
}

/// Undoes `%xx` and, as in every query, `+`.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (byte, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (other, _) => out.push(*other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl Logger {
    /// Starts it; gives the ends to write to once it is ready.
    pub(super) async fn start(
        shim: &Shim,
        id: &str,
        uri: &Uri,
    ) -> Result<(Logger, OwnedFd, OwnedFd), CallError> {
        let (out, out_end) = super::pipe()?;
        let (err, err_end) = super::pipe()?;
        let (ready, ready_end) = super::pipe()?;
        let busy = shim.reaper.busy();
        let child = launch(shim, id, uri, [out, err, ready_end])?;
        shim.reaper.adopt(child.pid);
        drop(busy);
        let (path, strict) = (uri.path.clone(), uri.strict);
        let told = blocking::run(move || {
            let mut word = [0];
            let count = File::from(ready).read(&mut word).step(|| format!("wait for the logger {path}"))?;
            if count == 0 && strict {
                let early = std::io::Error::from(ErrorKind::UnexpectedEof);
                return Err(early).step(|| format!("wait until the logger {path} says that it is ready"));
            }
            Ok(())
        });
        let logger = Logger(child);
        match told.await {
            Ok(()) => Ok((logger, out_end, err_end)),
            Err(error) => {
                logger.end(shim).await;
                Err(error)
            }
        }
    }

    /// Asks it to end, and ends it if it does not. All that it was to read has been written.
    pub(super) async fn end(self, shim: &Shim) {
        let _gone = berth_sys::pidfd::send_signal(&self.0.pidfd, SIGTERM);
        let ended = shim.reaper.wait(self.0.pid, &self.0.pidfd);
        if tokio::time::timeout(END_MAX, ended).await.is_err() {
            let _gone = berth_sys::pidfd::send_signal(&self.0.pidfd, SIGKILL);
            shim.reaper.wait(self.0.pid, &self.0.pidfd).await;
        }
    }
}

fn launch(shim: &Shim, id: &str, uri: &Uri, [out, err, ready]: [OwnedFd; 3]) -> Result<Child, CallError> {
    let step = || format!("start the logger {}", uri.path);
    let text = |text: &str| CString::new(text).map_err(std::io::Error::from).step(step);
    // A program is executed by its descriptor, which the interpreter of a script could not open any more.
    let interpreter = interpreter(&uri.path).step(step)?;
    let mut argv: Vec<CString> = interpreter.iter().map(|word| text(word)).collect::<Result<_, _>>()?;
    let program = interpreter.first().unwrap_or(&uri.path);
    let exe = rustix::fs::open(program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).step(step)?;
    argv.push(text(&uri.path)?);
    for argument in &uri.arguments {
        argv.push(text(argument)?);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let env = [
        CString::new([b"PATH=", path.as_bytes()].concat()).map_err(std::io::Error::from).step(step)?,
        text(&format!("CONTAINER_ID={id}"))?,
        text(&format!("CONTAINER_NAMESPACE={}", shim.namespace))?,
    ];
    let null = super::null()?;
    let plan = Plan {
        exe: exe.as_fd(),
        argv: &argv,
        env: &env,
        fds: &[null.as_fd(), null.as_fd(), null.as_fd(), out.as_fd(), err.as_fd(), ready.as_fd()],
        namespaces: Namespaces::empty(),
        cgroup: None,
    };
    spawn(&plan).step(step)
}

/// The interpreter of a script, and the one argument that may follow it; nothing for a program.
fn interpreter(path: &str) -> std::io::Result<Vec<String>> {
    let mut head = Vec::new();
    File::open(path)?.take(SCRIPT_HEAD_MAX).read_to_end(&mut head)?;
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(Vec::new()) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).trim().to_owned();
    let words = line.splitn(2, char::is_whitespace).map(|word| word.trim().to_owned());
    Ok(words.filter(|word| !word.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_becomes_arguments_in_its_order() {
        let uri = uri("binary:///bin/log%20it?id=a%26b&verbose&x=1+2").unwrap();
        assert_eq!(uri.path, "/bin/log it");
        assert_eq!(uri.arguments, ["id", "a&b", "verbose", "x", "1 2"]);
        assert!(!uri.strict);
        assert!(super::uri("binary-v2:///l").unwrap().strict);
        assert_eq!(super::uri("/run/fifo"), None);
        assert_eq!(decode("a%4"), "a%4");
    }

    #[test]
    fn scripts_are_told_from_programs() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("x").display().to_string();
            std::fs::write(&path, text).unwrap();
            interpreter(&path).unwrap()
        };
        assert_eq!(read("#! /bin/sh  -e \necho"), ["/bin/sh", "-e"]);
        assert_eq!(read("#!/bin/sh\n"), ["/bin/sh"]);
        assert!(read("\u{7f}ELF").is_empty());
    }
}
