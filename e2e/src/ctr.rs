//! ctr, containerd's own client, for one node.

use crate::node::Node;
use crate::paths;
use anyhow::{Context, bail};
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// What a command printed, and how it ended.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its exit code; -1 for one that was killed.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// ctr with a node's socket, in a namespace of the node's name: so the cgroups of its containers lie in the node's own.
#[derive(Clone, Debug)]
pub struct Ctr {
    socket: PathBuf,
    namespace: String,
    runtime: &'static str,
    hosts: PathBuf,
    dir: PathBuf,
    extra: Vec<String>,
}

impl Ctr {
    /// The client of a node with containerd.
    pub fn new(node: &Node) -> Self {
        let low_level = node.settings().low_level;
        let binary = match low_level {
            crate::node::LowLevel::BerthOci => Some(node.dir().join("bin/berth-oci")),
            _ => None,
        };
        Self {
            socket: node.socket(),
            namespace: node.tag().name(),
            runtime: low_level.name(),
            hosts: node.dir().join("certs.d"),
            dir: node.dir().to_owned(),
            extra: binary.iter().flat_map(|b| ["--runc-binary".into(), b.display().to_string()]).collect(),
        }
    }

    /// The words of a command, program first.
    pub fn words(&self, args: &[&str]) -> anyhow::Result<Vec<String>> {
        let mut words = vec![paths::peer("ctr")?.display().to_string()];
        words.extend(["--address".to_owned(), self.socket.display().to_string()]);
        words.extend(["--namespace".to_owned(), self.namespace.clone()]);
        words.extend(args.iter().map(|arg| (*arg).to_owned()));
        Ok(words)
    }

    /// `ctr run` with the node's runtime: options, image, id and command follow.
    pub fn run_words(&self, args: &[&str]) -> anyhow::Result<Vec<String>> {
        // A detached ctr leaves its FIFOs; in the node's folder they go with it.
        let fifos = self.dir.join("fifos").display().to_string();
        let mut all = vec!["run", "--fifo-dir", &fifos, "--runtime", self.runtime];
        all.extend(self.extra.iter().map(String::as_str));
        all.extend(args);
        self.words(&all)
    }

    /// Runs a command to its end.
    pub async fn say(&self, args: &[&str]) -> anyhow::Result<Said> {
        said(&self.words(args)?, "").await
    }

    /// Runs a command that must succeed; its output.
    pub async fn ok(&self, args: &[&str]) -> anyhow::Result<String> {
        let said = self.say(args).await?;
        if said.code != 0 {
            bail!("ctr {args:?} ended with {}: {}{}", said.code, said.out, said.err);
        }
        Ok(said.out)
    }

    /// `ctr run` to its end, with something on its standard input.
    pub async fn run(&self, args: &[&str], input: &str) -> anyhow::Result<Said> {
        said(&self.run_words(args)?, input).await
    }

    /// Pulls an image through the node's hosts.toml.
    pub async fn pull(&self, image: &str) -> anyhow::Result<()> {
        let hosts = self.hosts.display().to_string();
        self.ok(&["images", "pull", "--hosts-dir", &hosts, "--local", image]).await.map(drop)
    }

    /// The state of a task as `ctr task ls` shows it; none if there is no such task.
    pub async fn status(&self, id: &str) -> anyhow::Result<Option<String>> {
        let list = self.ok(&["task", "ls"]).await?;
        let line = list.lines().find(|line| line.split_whitespace().next() == Some(id));
        Ok(line.and_then(|line| line.split_whitespace().nth(2)).map(str::to_owned))
    }

    /// Waits until a task is in a state.
    pub async fn becomes(&self, id: &str, wanted: Option<&str>) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let status = self.status(id).await?;
            if status.as_deref() == wanted {
                return Ok(());
            }
            if begun.elapsed() > Duration::from_secs(20) {
                bail!("task {id} is {status:?}, not {wanted:?}");
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Everything that containerd tells from now on, in a file.
    pub async fn events(&self) -> anyhow::Result<Events> {
        let path = self.dir.join(format!("events-{}", std::process::id()));
        let file = File::create(&path)?;
        let words = self.words(&["events"])?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(file).stderr(Stdio::null()).kill_on_drop(true);
        let events = Events { path, _child: command.spawn().context("ctr events")? };
        // It listens some time after it was started: an event of our own shows that it does.
        let begun = Instant::now();
        for n in 0.. {
            let label = format!("probe={n}");
            self.ok(&["namespaces", "label", &self.namespace, &label]).await?;
            if !events.lines()?.is_empty() {
                break;
            }
            if begun.elapsed() > Duration::from_secs(20) {
                bail!("ctr events tells nothing");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(events)
    }
}

/// `ctr events`, running.
pub struct Events {
    path: PathBuf,
    _child: Child,
}

impl Events {
    fn lines(&self) -> anyhow::Result<Vec<String>> {
        Ok(std::fs::read_to_string(&self.path)?.lines().map(str::to_owned).collect())
    }

    /// The lines about tasks that hold a word, such as a container's id.
    pub fn about(&self, word: &str) -> anyhow::Result<Vec<String>> {
        let lines = self.lines()?;
        Ok(lines.into_iter().filter(|line| line.contains("/tasks/") && line.contains(word)).collect())
    }

    /// The topics of a container's events, without `/tasks/`, once there are so many of them.
    pub async fn topics(&self, id: &str, count: usize) -> anyhow::Result<Vec<String>> {
        let begun = Instant::now();
        loop {
            let lines = self.about(id)?;
            let topic = |line: &String| {
                line.split_whitespace().find_map(|word| word.strip_prefix("/tasks/")).map(str::to_owned)
            };
            let topics: Vec<String> = lines.iter().filter_map(topic).collect();
            if topics.len() >= count {
                return Ok(topics);
            }
            if begun.elapsed() > Duration::from_secs(20) {
                bail!("not {count} events of {id}: {lines:#?}");
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}

/// Runs a command line to its end.
pub async fn said(words: &[String], input: &str) -> anyhow::Result<Said> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().with_context(|| format!("{words:?}"))?;
    let mut stdin = child.stdin.take().context("it has no input")?;
    let feed = async {
        // Who does not read it does not want it.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
    };
    let limit = Duration::from_secs(60);
    let ended = tokio::time::timeout(limit, async { tokio::join!(feed, child.wait_with_output()).1 }).await;
    let output = ended.with_context(|| format!("{words:?} does not end"))??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    })
}
