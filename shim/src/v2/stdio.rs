//! The standard streams of a process, which containerd names by paths and URIs: FIFOs that it reads and writes, files,
//! and programs that take logs.

mod fifo;
mod logger;
mod pump;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_runtime::Stdio;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::task::{AbortHandle, JoinHandle};

use self::logger::Logger;
use self::pump::Sink;
use super::shim::Shim;
use crate::error::{CallError, Step};

/// What containerd says of the streams; empty for one that leads nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Paths {
    pub(super) stdin: String,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) terminal: bool,
}

/// Who owns the process's ends of its pipes, so that a program that is not root can open them again by /dev/stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Both ends of the streams of a process that is about to be built.
pub(super) struct Ends {
    /// For the process.
    pub(super) give: Stdio,
    /// For us, to be set going by [`Kept::run`].
    pub(super) kept: Kept,
}

/// Our ends.
#[derive(Default)]
pub(super) struct Kept {
    outputs: Vec<(Option<OwnedFd>, Sink)>,
    input: Option<fifo::Input>,
    /// Where the input goes; none for a terminal.
    input_pipe: Option<OwnedFd>,
    logger: Option<Logger>,
}

/// Streams under way.
#[derive(Debug)]
pub(super) struct Streams {
    outputs: Mutex<Vec<JoinHandle<()>>>,
    input: Option<AbortHandle>,
    /// While this is held, the input does not end.
    keeper: Mutex<Option<OwnedFd>>,
    logger: Mutex<Option<Logger>>,
}

/// Where an output goes.
enum Place {
    Nowhere,
    Fifo(PathBuf),
    File(Arc<OwnedFd>),
}

impl Owner {
    /// A pipe's end that is the owner's now.
    fn given(self, end: OwnedFd) -> Result<OwnedFd, CallError> {
        if self != Owner::default() {
            std::os::unix::fs::fchown(&end, Some(self.uid), Some(self.gid))
                .step(|| format!("give a stream to {}:{} (IoUid, IoGid)", self.uid, self.gid))?;
        }
        Ok(end)
    }
}

impl Ends {
    /// Opens the streams of a container or exec.
    pub(super) async fn open(shim: &Shim, id: &str, paths: &Paths, owner: Owner) -> Result<Ends, CallError> {
        let mut kept = Kept::default();
        if !paths.stdin.is_empty() {
            kept.input = Some(fifo::Input::open(Path::new(&paths.stdin))?);
        }
        if paths.terminal {
            kept.terminal(shim, id, &paths.stdout).await?;
            return Ok(Ends { give: Stdio::Terminal, kept });
        }
        let input = match kept.input {
            Some(_) => {
                let (reader, writer) = pipe()?;
                kept.input_pipe = Some(writer);
                owner.given(reader)?
            }
            None => null()?,
        };
        if let Some(uri) = logger::uri(&paths.stdout) {
            let (logger, out, err) = Logger::start(shim, id, &uri).await?;
            kept.logger = Some(logger);
            return Ok(Ends { give: Stdio::Fds([input, out, err]), kept });
        }
        let out = place(&paths.stdout)?;
        let err = match (&out, paths.stderr == paths.stdout || is_file_uri(&paths.stdout)) {
            (Place::File(file), true) => Place::File(file.clone()),
            _ => place(&paths.stderr)?,
        };
        let out = output(out, &mut kept, owner).await?;
        let err = output(err, &mut kept, owner).await?;
        Ok(Ends { give: Stdio::Fds([input, out, err]), kept })
    }
}

impl Kept {
    /// Where a terminal's output goes.
    async fn terminal(&mut self, shim: &Shim, id: &str, stdout: &str) -> Result<(), CallError> {
        let sink = match logger::uri(stdout) {
            Some(uri) => {
                let (logger, out, _nothing_comes_there) = Logger::start(shim, id, &uri).await?;
                self.logger = Some(logger);
                Some(Sink::Stream { writer: out, keeper: None })
            }
            None => sink(place(stdout)?).await?,
        };
        self.outputs.extend(sink.map(|sink| (None, sink)));
        Ok(())
    }

    /// The process was not built, or is not to stay: a logger has nothing to wait for.
    pub(super) async fn give_up(self, shim: &Shim) {
        drop((self.outputs, self.input, self.input_pipe));
        if let Some(logger) = self.logger {
            logger.end(shim).await;
        }
    }

    /// Sets the streams going; with the terminal's master, if there is one.
    pub(super) fn run(&mut self, console: Option<&Arc<OwnedFd>>) -> Result<Streams, CallError> {
        let step = || "put a stream on the event loop".to_owned();
        let master = || {
            let master = console.map(|console| console.try_clone()).transpose().step(step)?;
            master.ok_or_else(|| CallError::request("terminal", "the process has none"))
        };
        let mut outputs = Vec::new();
        for (source, sink) in self.outputs.drain(..) {
            let source = source.map_or_else(master, Ok)?;
            outputs.push(crate::background::spawn(pump::output(source, sink).step(step)?));
        }
        let (mut input, mut keeper) = (None, None);
        if let Some(fifo) = self.input.take() {
            let (to, is_terminal) = match self.input_pipe.take() {
                Some(pipe) => (pipe, false),
                None => (master()?, true),
            };
            keeper = Some(fifo.keeper);
            input = Some(
                crate::background::spawn(pump::input(fifo.reader, to, is_terminal).step(step)?)
                    .abort_handle(),
            );
        }
        Ok(Streams {
            outputs: Mutex::new(outputs),
            input,
            keeper: Mutex::new(keeper),
            logger: Mutex::new(self.logger.take()),
        })
    }
}

impl Streams {
    /// The input ends as soon as containerd's side of it has.
    pub(super) fn close_input(&self) {
        drop(self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Lets the last output leave, for so long; then the streams are closed, whoever still writes.
    pub(super) async fn finish(&self, shim: &Shim, limit: Duration) {
        self.close_input();
        if let Some(input) = &self.input {
            input.abort();
        }
        let outputs = std::mem::take(&mut *self.outputs.lock().unwrap_or_else(PoisonError::into_inner));
        let deadline = tokio::time::Instant::now() + limit;
        for mut output in outputs {
            if tokio::time::timeout_at(deadline, &mut output).await.is_err() {
                output.abort();
            }
        }
        let logger = self.logger.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(logger) = logger {
            logger.end(shim).await;
        }
    }
}

/// The process's end of one output; ours is kept.
async fn output(place: Place, kept: &mut Kept, owner: Owner) -> Result<OwnedFd, CallError> {
    match sink(place).await? {
        None => null(),
        Some(sink) => {
            let (reader, writer) = pipe()?;
            kept.outputs.push((Some(reader), sink));
            owner.given(writer)
        }
    }
}

async fn sink(place: Place) -> Result<Option<Sink>, CallError> {
    Ok(match place {
        Place::Nowhere => None,
        Place::Fifo(path) => {
            let fifo::Output { writer, keeper } = fifo::Output::open(&path).await?;
            Some(Sink::Stream { writer, keeper: Some(keeper) })
        }
        Place::File(file) => Some(Sink::File(file)),
    })
}

/// What a path or URI names.
fn place(text: &str) -> Result<Place, CallError> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let path = PathBuf::from(rest);
    let file = |create: bool| {
        let opened = File::options().append(true).create(create).open(&path);
        opened.map(|file| Place::File(Arc::new(file.into()))).step(|| format!("open {}", path.display()))
    };
    match scheme {
        "" if text.is_empty() => Ok(Place::Nowhere),
        "file" => {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).step(|| format!("make {}", folder.display()))?;
            }
            file(true)
        }
        "" | "fifo" => match std::fs::metadata(&path).step(|| format!("open {}", path.display()))? {
            about if about.file_type().is_fifo() => Ok(Place::Fifo(path)),
            _ => file(false),
        },
        other => {
            Err(CallError::request("stdout", format!("{other}:// is not known: fifo, file or binary is")))
        }
    }
}

fn is_file_uri(text: &str) -> bool {
    text.starts_with("file://")
}

fn pipe() -> Result<(OwnedFd, OwnedFd), CallError> {
    pipe_with(PipeFlags::CLOEXEC).step(|| "make a pipe".to_owned())
}

fn null() -> Result<OwnedFd, CallError> {
    let null = File::options().read(true).write(true).open("/dev/null");
    null.map(OwnedFd::from).step(|| "open /dev/null".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_given_the_end_of_a_pipe() {
        use std::os::unix::fs::MetadataExt;
        let owner_of = |owner: Owner| {
            let about = File::from(owner.given(pipe().unwrap().1).unwrap()).metadata().unwrap();
            (about.uid(), about.gid())
        };
        let own = owner_of(Owner::default());
        assert_eq!(own.0, rustix::process::geteuid().as_raw());
        if own.0 == 0 {
            assert_eq!(owner_of(Owner { uid: 5, gid: 6 }), (5, 6));
        }
    }

    #[test]
    fn places_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        assert!(matches!(place(""), Ok(Place::Nowhere)));
        assert!(matches!(place(&format!("file://{}", at("new/log"))), Ok(Place::File(_))));
        assert!(matches!(place(&at("new/log")), Ok(Place::File(_))));
        assert!(place(&at("missing")).is_err());
        assert!(place("npipe://x").is_err());
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert!(matches!(place(&at("fifo")), Ok(Place::Fifo(_))));
    }
}
