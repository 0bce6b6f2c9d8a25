//! The line to the guest: scripts go in, exit code and output come back.

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// What the guest may add to a script's own time before it counts as hung.
const GRACE: Duration = Duration::from_secs(30);

/// How a script ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its exit code; 124 when its time was over.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it complained.
    pub err: String,
}

/// An open line.
pub(super) struct Agent {
    answers: BufReader<OwnedReadHalf>,
    scripts: OwnedWriteHalf,
    sent: u64,
}

impl Agent {
    /// Connects to the machine's end.
    pub(super) async fn connect(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).await.with_context(|| socket.display().to_string())?;
        let (answers, scripts) = stream.into_split();
        Ok(Self { answers: BufReader::new(answers), scripts, sent: 0 })
    }

    /// Waits until the guest answers at all, asking again: what is sent before its end is open is lost.
    pub(super) async fn wait(&mut self, limit: Duration) -> anyhow::Result<()> {
        let begun = std::time::Instant::now();
        loop {
            let asked = tokio::time::timeout(Duration::from_secs(3), self.exchange("true", 3)).await;
            match asked {
                Ok(answer) => return answer.map(drop),
                Err(_) if begun.elapsed() > limit => bail!("the guest does not answer after {limit:?}"),
                Err(_) => {}
            }
        }
    }

    /// Runs a script by bash for at most so many seconds.
    pub(super) async fn run(&mut self, script: &str, seconds: u64) -> anyhow::Result<Output> {
        let limit = Duration::from_secs(seconds) + GRACE;
        let answer = tokio::time::timeout(limit, self.exchange(script, seconds)).await;
        answer.unwrap_or_else(|_| bail!("the guest hangs: no answer in {limit:?}"))
    }

    async fn exchange(&mut self, script: &str, seconds: u64) -> anyhow::Result<Output> {
        self.sent += 1;
        let token = format!("script-{}.", self.sent);
        let line = format!("{token} {seconds} {}\n", STANDARD.encode(script));
        self.scripts.write_all(line.as_bytes()).await.context("sending a script to the guest")?;
        loop {
            let mut answer = String::new();
            if self.answers.read_line(&mut answer).await.context("the guest's answer")? == 0 {
                bail!("the machine has closed the line to its guest");
            }
            // An answer to an earlier script, or a half of one that was cut by a restore, may stand before.
            if let Some((_, answer)) = answer.split_once(&token) {
                return parse(answer).with_context(|| format!("not an answer: {answer:?}"));
            }
        }
    }
}

fn parse(answer: &str) -> Option<Output> {
    let mut words = answer.split_whitespace();
    let code = words.next()?.parse().ok()?;
    let mut text = || {
        let bytes = STANDARD.decode(words.next()?.strip_prefix('=')?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    Some(Output { code, out: text()?, err: text()? })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn answers_are_read_whole() {
        let output = parse(" 3 =aGk= =").unwrap();
        assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (3, "hi", ""));
        for bad in ["", "3", "x = =", "3 aGk= =", "3 =aGk="] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
