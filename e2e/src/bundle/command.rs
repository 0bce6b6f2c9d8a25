//! Running a runtime's commands on a bundle, and what came of them.

use super::Bundle;
use anyhow::{Context, bail};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// More than any command needs, also where everything is forty times slower.
const LIMIT: Duration = Duration::from_secs(300);

static CALLS: AtomicU32 = AtomicU32::new(0);

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code, or 128 and the signal that ended it.
    pub code: i32,
    /// What it and the container's processes printed.
    pub out: String,
    /// And on standard error.
    pub err: String,
    /// The runtime's own complaint, if it failed: the `msg` of its log.
    pub error: Option<String>,
}

impl Ran {
    /// What can be compared: the output and the exit code, or that the runtime refused.
    pub fn seen(&self, bundle: &Bundle) -> String {
        let out = bundle.plain(&self.out);
        match &self.error {
            Some(_) => format!("{out}[refused, exit {}]", self.code),
            None => format!("{out}{}[exit {}]", bundle.plain(&self.err), self.code),
        }
    }
}

/// One command to run: its words and its surroundings.
#[derive(Debug)]
pub struct Step<'a> {
    bundle: &'a Bundle,
    command: Command,
    call: String,
}

impl Bundle {
    /// A command of the runtime, its words after the global flags.
    pub fn step(&self, words: &[&str]) -> anyhow::Result<Step<'_>> {
        let call = format!("call{}", CALLS.fetch_add(1, Ordering::Relaxed));
        let mut command = self.command()?;
        command.arg("--root").arg(self.state_dir());
        command.arg("--log").arg(self.path(&format!("{call}.log"))).args(["--log-format", "json"]);
        command.args(words).current_dir(self.dir()).stdin(Stdio::null());
        Ok(Step { bundle: self, command, call })
    }

    /// Runs a command of the runtime on this container: `bundle.call("kill", &["KILL"])`.
    pub fn call(&self, verb: &str, words: &[&str]) -> anyhow::Result<Ran> {
        self.call_with(verb, &[], words)
    }

    /// The same with flags before the id.
    pub fn call_with(&self, verb: &str, flags: &[&str], words: &[&str]) -> anyhow::Result<Ran> {
        let all = [&[verb], flags, &[self.id()], words].concat();
        self.step(&all)?.run()
    }

    /// `run`, in the foreground.
    pub fn run(&self) -> anyhow::Result<Ran> {
        self.call("run", &[])
    }

    /// A command that must succeed.
    pub fn must(&self, verb: &str, words: &[&str]) -> anyhow::Result<Ran> {
        let ran = self.call(verb, words)?;
        match ran.code {
            0 => Ok(ran),
            code => bail!("{} {verb} ended with {code}: {:?} {}", self.runtime().name(), ran.error, ran.err),
        }
    }

    /// `create` and `start`: a container whose processes run.
    pub fn up(&self) -> anyhow::Result<()> {
        self.must("create", &[])?;
        self.must("start", &[]).map(drop)
    }

    /// What the shell prints in a container that runs.
    pub fn exec(&self, script: &str) -> anyhow::Result<Ran> {
        self.call("exec", &["sh", "-c", script])
    }

    /// The container's state; null if the runtime knows none.
    pub fn state(&self) -> anyhow::Result<Value> {
        let ran = self.call("state", &[])?;
        Ok(serde_json::from_str(&ran.out).unwrap_or(Value::Null))
    }

    /// The word of its status, `gone` if there is none.
    pub fn status(&self) -> anyhow::Result<String> {
        Ok(self.state()?["status"].as_str().unwrap_or("gone").to_owned())
    }

    /// Waits for a status.
    pub fn until(&self, status: &str) -> anyhow::Result<()> {
        wait_for(&format!("{} to be {status}", self.id()), || Ok(self.status()? == status))
    }

    /// The complaint of the last of its commands that failed.
    pub fn last_complaint(&self) -> Option<String> {
        let entries = fs::read_dir(self.dir()).ok()?.flatten().map(|entry| entry.path());
        let mut logs: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
        // Numbers that grow: by length, then by name.
        logs.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        logs.iter().rev().find_map(|path| complaint(&fs::read_to_string(path).ok()?))
    }

    /// The host's number of the first process.
    pub fn pid(&self) -> anyhow::Result<i32> {
        let pid = self.state()?["pid"].as_i64().context("no pid in the state")?;
        Ok(pid as i32)
    }
}

/// Waits until something holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > LIMIT {
            bail!("waited {LIMIT:?} for {what}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

impl Step<'_> {
    /// The command, for what is rarely changed: environment, streams, directory.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs it to its end. The streams are files, so that whoever of the container keeps them open holds nobody up.
    pub fn run(mut self) -> anyhow::Result<Ran> {
        let child = self.spawn()?;
        self.end(child)
    }

    /// Starts it.
    pub fn spawn(&mut self) -> anyhow::Result<Child> {
        for (name, error) in [("out", false), ("err", true)] {
            let file = File::create(self.bundle.path(&format!("{}.{name}", self.call)))?;
            match error {
                true => self.command.stderr(file),
                false => self.command.stdout(file),
            };
        }
        self.command.spawn().with_context(|| format!("running {:?}", self.command))
    }

    /// Waits for its end.
    pub fn end(&self, mut child: Child) -> anyhow::Result<Ran> {
        let status = self.wait(&mut child)?;
        let file = |name: &str| {
            let bytes = fs::read(self.bundle.path(&format!("{}.{name}", self.call))).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Ran { code, out: file("out"), err: file("err"), error: complaint(&file("log")) })
    }

    fn wait(&self, child: &mut Child) -> anyhow::Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if begun.elapsed() > LIMIT {
                child.kill()?;
                child.wait()?;
                bail!("{:?} did not end within {LIMIT:?}", self.command);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The message of the last error in a log of JSON lines.
fn complaint(log: &str) -> Option<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut errors = lines.filter(|line| matches!(line["level"].as_str(), Some("error" | "fatal")));
    errors.next_back().map(|line| line["msg"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn only_errors_are_complaints() {
        assert_eq!(complaint(""), None);
        assert_eq!(complaint("{\"level\":\"warning\",\"msg\":\"x\"}\n"), None);
        let log = "no json\n{\"level\":\"error\",\"msg\":\"one\"}\n{\"level\":\"error\",\"msg\":\"two\"}\n";
        assert_eq!(complaint(log).as_deref(), Some("two"));
    }
}
