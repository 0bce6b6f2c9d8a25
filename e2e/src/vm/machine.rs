//! QEMU's process: started, asked to freeze and restore, killed.

use super::Mode;
use crate::paths;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// The name of the frozen state.
const STATE: &str = "ready";

/// A running machine; dropped, it is killed and reaped.
pub(super) struct Machine {
    dir: PathBuf,
    mode: Mode,
    pid: i32,
    keeper: Option<JoinHandle<()>>,
}

impl Machine {
    /// Starts it: from the frozen state if there is one, else by a boot.
    pub(super) fn start(dir: &Path, mode: Mode, frozen: bool) -> anyhow::Result<Self> {
        let disk = dir.join(format!("{}.qcow2", mode.name()));
        if !disk.exists() {
            overlay(&disk)?;
        }
        for name in ["agent.sock", "qmp.sock"] {
            // The last machine's.
            let _ = std::fs::remove_file(dir.join(name));
        }
        let mut command = command(dir, mode, &disk)?;
        if frozen {
            command.args(["-loadvm", STATE]);
        }
        let (pid, keeper) = keep(command)?;
        Ok(Self { dir: dir.to_owned(), mode, pid, keeper: Some(keeper) })
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Where the line to the guest begins; waited for.
    pub(super) async fn socket(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.dir.join(name);
        let begun = Instant::now();
        while UnixStream::connect(&path).await.is_err() {
            if begun.elapsed() > Duration::from_secs(30) || self.ended() {
                bail!("QEMU does not listen at {}\n{}", path.display(), self.console());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(path)
    }

    /// Keeps memory and disk as they are now.
    pub(super) async fn freeze(&self) -> anyhow::Result<()> {
        self.monitor(&format!("savevm {STATE}")).await
    }

    /// Goes back to the frozen state.
    pub(super) async fn restore(&self) -> anyhow::Result<()> {
        self.monitor(&format!("loadvm {STATE}")).await
    }

    /// The last words on its console.
    pub(super) fn console(&self) -> String {
        let text = std::fs::read(self.dir.join("console.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn ended(&self) -> bool {
        self.keeper.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// One command of QEMU's human monitor, which answers with text only when it failed.
    async fn monitor(&self, line: &str) -> anyhow::Result<()> {
        let talk = async {
            let stream = UnixStream::connect(self.dir.join("qmp.sock")).await?;
            let (answers, mut questions) = stream.into_split();
            let mut answers = BufReader::new(answers).lines();
            let command = json!({"execute": "human-monitor-command", "arguments": {"command-line": line}});
            for question in [json!({"execute": "qmp_capabilities"}), command] {
                questions.write_all(format!("{question}\n").as_bytes()).await?;
            }
            let mut returned = Vec::new();
            while returned.len() < 2 {
                let answer = answers.next_line().await?.context("the monitor closed")?;
                let answer: Value = serde_json::from_str(&answer)?;
                if let Some(error) = answer.get("error") {
                    bail!("{error}");
                }
                returned.extend(answer.get("return").cloned());
            }
            match returned[1].as_str() {
                None | Some("") => Ok(()),
                Some(text) => bail!("{text}"),
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(300), talk).await;
        done.context("no answer in time").flatten().with_context(|| format!("QEMU, {line}"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let keeper = self.keeper.take();
        // The keeper ends when it has reaped the process: until then the pid is ours.
        if let Some(keeper) = keeper.filter(|keeper| !keeper.is_finished()) {
            if let Some(pid) = Pid::from_raw(self.pid) {
                // It may just have ended.
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = keeper.join();
        }
    }
}

/// A disk that holds only what differs from the built one.
fn overlay(disk: &Path) -> anyhow::Result<()> {
    let base = file("disk.qcow2")?;
    let mut command = Command::new("qemu-img");
    command.args(["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"]).arg(base).arg(disk);
    let status = command.status().context("qemu-img; run: cargo xtask tools guest")?;
    if status.success() { Ok(()) } else { bail!("{command:?} ended with {status}") }
}

fn file(name: &str) -> anyhow::Result<PathBuf> {
    let path = paths::tools().join("vm").join(name);
    if path.exists() {
        Ok(path)
    } else {
        bail!("{} is missing; run: cargo xtask tools guest", path.display())
    }
}

/// QEMU emulating, which works everywhere: the processor's own help is not to be had on many test machines.
fn command(dir: &Path, mode: Mode, disk: &Path) -> anyhow::Result<Command> {
    let append = format!(
        "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 hugepages=8 panic=-1 {}",
        mode.kernel_words()
    );
    // Killed with the thread that waits for it, however this program ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35"]);
    command.args(["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max", "-smp", "2", "-m", "1024"]);
    command.arg("-kernel").arg(file("vmlinuz")?).arg("-initrd").arg(file("initrd")?);
    command.arg("-append").arg(append);
    let here = |options: &str, name: &str| format!("{options}{}", dir.join(name).display());
    command.arg("-serial").arg(here("file:", "console.log"));
    command.arg("-qmp").arg(format!("{},server=on,wait=off", here("unix:", "qmp.sock")));
    command.arg("-drive").arg(format!("if=virtio,format=qcow2,cache=unsafe,file={}", disk.display()));
    command.arg("-drive").arg(here("if=virtio,format=raw,readonly=on,file=", super::payload::FILE));
    command.args(["-device", "virtio-serial", "-device", "virtserialport,chardev=agent,name=berth.agent"]);
    command.arg("-chardev").arg(here("socket,id=agent,server=on,wait=off,path=", "agent.sock"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// Starts it in a thread that waits for its end.
fn keep(mut command: Command) -> anyhow::Result<(i32, JoinHandle<()>)> {
    let (told, hear) = mpsc::channel();
    let keeper = std::thread::spawn(move || match command.spawn() {
        Ok(mut child) => {
            let _ = told.send(Ok(child.id()));
            let _ = child.wait();
        }
        Err(error) => {
            let _ = told.send(Err(error));
        }
    });
    let pid = hear.recv().context("the thread that keeps QEMU")?.context("starting QEMU through setpriv")?;
    Ok((i32::try_from(pid)?, keeper))
}
