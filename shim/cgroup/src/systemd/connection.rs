//! A conversation with systemd: its private socket, or the system bus where that is out of reach.
//!
//! Opened for one piece of work and closed again: a connection kept by every shim would meet the bus's limit on
//! connections, and the private socket costs no more than a connect.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::wire::{self, ERROR, Message, RETURN, SIGNAL, Target};

const PRIVATE: &str = "/run/systemd/private";
const BUS: &str = "/run/dbus/system_bus_socket";
const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MATCH: &str = "type='signal',sender='org.freedesktop.systemd1',member='JobRemoved'";

/// How long one job may take. systemd queues jobs behind a reload.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why systemd did not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// It said no.
    #[error("{member}: {name}: {text}")]
    Refused { member: String, name: String, text: String },
    /// Its job ended badly.
    #[error("the job ended as {0:?}")]
    Job(String),
    /// The conversation broke.
    #[error("{step}: {error}")]
    Broken { step: &'static str, error: std::io::Error },
    /// It sent something that is no D-Bus message.
    #[error("unintelligible answer")]
    Garbled,
}

/// A connection after its greeting.
pub(super) struct Connection {
    stream: UnixStream,
    bus: bool,
    serial: u32,
    deadline: Instant,
    /// Jobs that ended while an answer was waited for: object path and result.
    ended: Vec<(String, String)>,
}

impl Connection {
    /// Connects to systemd's private socket, else to the system bus.
    pub(super) fn open() -> Result<Self, Failure> {
        match Self::connect(Path::new(PRIVATE), false) {
            Ok(connection) => Ok(connection),
            Err(private) => Self::connect(Path::new(BUS), true).map_err(|_| private),
        }
    }

    fn connect(path: &Path, bus: bool) -> Result<Self, Failure> {
        let step = if bus { "connect to the system bus" } else { "connect to /run/systemd/private" };
        let stream = UnixStream::connect(path).map_err(|error| Failure::Broken { step, error })?;
        Self::greet(stream, bus)
    }

    fn greet(stream: UnixStream, bus: bool) -> Result<Self, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut connection = Self { stream, bus, serial: 0, deadline, ended: Vec::new() };
        let uid = rustix::process::geteuid().as_raw().to_string();
        let hex: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
        // BEGIN goes out together with the question. Were it sent after the answer, the first call could reach systemd in
        // the same read as BEGIN, and systemd would look at it only when more bytes come: never.
        connection.send("authenticate", format!("\0AUTH EXTERNAL {hex}\r\nBEGIN\r\n").as_bytes())?;
        let answer = connection.line()?;
        if !answer.starts_with("OK ") {
            let error = std::io::Error::other(answer);
            return Err(Failure::Broken { step: "authenticate", error });
        }
        if bus {
            let of_bus = |member| Target {
                destination: Some("org.freedesktop.DBus"),
                path: "/org/freedesktop/DBus",
                interface: "org.freedesktop.DBus",
                member,
            };
            connection.exchange(&of_bus("Hello"), "", &[])?;
            connection.exchange(&of_bus("AddMatch"), "s", &wire::body(|body| body.string(MATCH)))?;
            connection.call("Subscribe", "", &[])?;
        }
        Ok(connection)
    }

    /// Calls a method of the manager and gives its answer.
    pub(super) fn call(&mut self, member: &str, signature: &str, body: &[u8]) -> Result<Message, Failure> {
        let destination = self.bus.then_some(SYSTEMD);
        self.exchange(
            &Target { destination, path: MANAGER_PATH, interface: MANAGER, member },
            signature,
            body,
        )
    }

    /// The release of systemd; 0 for one that tells none.
    pub(super) fn version(&mut self) -> Result<u32, Failure> {
        let destination = self.bus.then_some(SYSTEMD);
        let interface = "org.freedesktop.DBus.Properties";
        let target = Target { destination, path: MANAGER_PATH, interface, member: "Get" };
        let body = wire::body(|body| {
            body.string(MANAGER);
            body.string("Version");
        });
        let answer = self.exchange(&target, "ss", &body)?;
        let mut reader = answer.reader();
        let text = reader.signature().filter(|kind| kind == "s").and_then(|_| reader.string());
        let text = text.ok_or(Failure::Garbled)?;
        let digits = text.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty());
        Ok(digits.and_then(|digits| digits.parse().ok()).unwrap_or(0))
    }

    /// Calls a method that starts a job, and waits until that very job has ended well.
    pub(super) fn job(&mut self, member: &str, signature: &str, body: &[u8]) -> Result<(), Failure> {
        self.deadline = Instant::now() + PATIENCE;
        let answer = self.call(member, signature, body)?;
        let job = answer.reader().string().ok_or(Failure::Garbled)?;
        loop {
            if let Some((_, result)) = self.ended.iter().find(|(path, _)| *path == job) {
                return match result.as_str() {
                    "done" | "skipped" => Ok(()),
                    other => Err(Failure::Job(other.to_owned())),
                };
            }
            let message = self.receive()?;
            self.note(&message);
        }
    }

    fn exchange(&mut self, target: &Target<'_>, signature: &str, body: &[u8]) -> Result<Message, Failure> {
        self.serial += 1;
        let serial = self.serial;
        self.send("send", &wire::call(serial, target, signature, body))?;
        loop {
            let message = self.receive()?;
            match message.kind {
                RETURN if message.reply_to == Some(serial) => return Ok(message),
                ERROR if message.reply_to == Some(serial) => {
                    let text = message.reader().string().unwrap_or_default();
                    let member = target.member.to_owned();
                    return Err(Failure::Refused { member, name: message.error, text });
                }
                _ => self.note(&message),
            }
        }
    }

    /// Keeps the end of a job, which can be told before the answer that names the job is read.
    fn note(&mut self, message: &Message) {
        if message.kind != SIGNAL || message.member != "JobRemoved" || message.signature != "uoss" {
            return;
        }
        let mut reader = message.reader();
        let fields = (reader.word(), reader.string(), reader.string(), reader.string());
        if let (Some(_), Some(job), Some(_), Some(result)) = fields {
            self.ended.push((job, result));
        }
    }

    fn send(&mut self, step: &'static str, bytes: &[u8]) -> Result<(), Failure> {
        let left = self.left(step)?;
        let done = self.stream.set_write_timeout(Some(left)).and_then(|()| self.stream.write_all(bytes));
        done.map_err(|error| Failure::Broken { step, error })
    }

    fn receive(&mut self) -> Result<Message, Failure> {
        let mut head = [0; 16];
        self.fill(&mut head)?;
        let len = wire::message_len(&head).ok_or(Failure::Garbled)?;
        let mut bytes = head.to_vec();
        bytes.resize(len, 0);
        self.fill(&mut bytes[16..])?;
        wire::parse(&bytes).ok_or(Failure::Garbled)
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n") && text.len() < 1024 {
            let mut byte = [0];
            self.fill(&mut byte)?;
            text.extend(byte);
        }
        Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        let step = "wait for the answer";
        let mut at = 0;
        while at < buffer.len() {
            let left = self.left(step)?;
            let read =
                self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut buffer[at..]));
            match read {
                Ok(0) => {
                    let error = std::io::ErrorKind::UnexpectedEof.into();
                    return Err(Failure::Broken { step, error });
                }
                Ok(more) => at += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Broken { step, error }),
            }
        }
        Ok(())
    }

    fn left(&self, step: &'static str) -> Result<Duration, Failure> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let error = std::io::ErrorKind::TimedOut.into();
            return Err(Failure::Broken { step, error });
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests;
