//! The one machine of a run, lent to one test at a time.

use super::agent::{Agent, Output};
use super::machine::Machine;
use super::{Mode, payload};
use crate::tag::Tag;
use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// How long a boot may take on a busy machine.
const BOOT: Duration = Duration::from_secs(600);

static POOL: Mutex<Option<Pool>> = Mutex::const_new(None);

/// A run's folder and what runs in it.
struct Pool {
    dir: PathBuf,
    frozen: BTreeSet<Mode>,
    running: Option<(Machine, Agent)>,
}

/// The machine, for as long as a test has it.
pub struct Guest(MutexGuard<'static, Option<Pool>>);

/// The machine in its frozen state, product and test programs under [`super::BIN`]. Waits while another test has it.
pub async fn guest(mode: Mode) -> anyhow::Result<Guest> {
    let mut lent = POOL.lock().await;
    let pool = match &mut *lent {
        Some(pool) => pool,
        empty => empty.insert(Pool::new()?),
    };
    pool.bring(mode).await.with_context(|| format!("the guest, {}", mode.name()))?;
    Ok(Guest(lent))
}

/// Ends the machine and removes its files. For the end of a test program, when no test runs any more.
pub fn end() {
    if let Ok(mut lent) = POOL.try_lock() {
        *lent = None;
    }
}

impl Pool {
    fn new() -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(Tag::next().name());
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        // By it `clean` tells a killed run from a living one.
        std::fs::write(dir.join("runner.pid"), std::process::id().to_string())?;
        payload::blank(&dir)?;
        Ok(Self { dir, frozen: BTreeSet::new(), running: None })
    }

    async fn bring(&mut self, mode: Mode) -> anyhow::Result<()> {
        if let Some((machine, agent)) = self.running.as_mut().filter(|(machine, _)| machine.mode() == mode)
            && machine.restore().await.is_ok()
            && agent.wait(Duration::from_secs(60)).await.is_ok()
        {
            return Ok(());
        }
        // The other mode's, or one that no longer listens.
        self.running = None;
        let frozen = self.frozen.contains(&mode);
        let machine = Machine::start(&self.dir, mode, frozen)?;
        machine.socket("qmp.sock").await?;
        let mut agent = Agent::connect(&machine.socket("agent.sock").await?).await?;
        agent.wait(BOOT).await.with_context(|| machine.console())?;
        if !frozen {
            settle(&mut agent).await?;
            payload::write(&self.dir, &payload::usual()?)?;
            unpack(&mut agent).await?;
            machine.freeze().await?;
            self.frozen.insert(mode);
        }
        self.running = Some((machine, agent));
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.running = None;
        // What stays is found by `clean`.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Guest {
    /// Runs a script by bash for at most so many seconds.
    pub async fn run(&mut self, script: &str, seconds: u64) -> anyhow::Result<Output> {
        let (_, agent) = self.pool()?.running.as_mut().context("the guest is gone")?;
        agent.run(script, seconds).await
    }

    /// What a script prints; another exit code than 0 is an error with all that it said.
    pub async fn ok(&mut self, script: &str, seconds: u64) -> anyhow::Result<String> {
        let Output { code, out, err } = self.run(script, seconds).await?;
        if code != 0 {
            bail!("in the guest this ended with {code}:\n{script}\n-- output\n{out}\n-- errors\n{err}");
        }
        Ok(out)
    }

    /// Puts files into the guest, each under its absolute path there.
    pub async fn push(&mut self, files: &[(PathBuf, PathBuf)]) -> anyhow::Result<()> {
        let pool = self.pool()?;
        payload::write(&pool.dir, files)?;
        let (_, agent) = pool.running.as_mut().context("the guest is gone")?;
        unpack(agent).await
    }

    fn pool(&mut self) -> anyhow::Result<&mut Pool> {
        self.0.as_mut().context("the guest was ended")
    }
}

/// Until systemd has nothing left to start.
async fn settle(agent: &mut Agent) -> anyhow::Result<()> {
    let asked = agent.run("systemctl is-system-running --wait", BOOT.as_secs()).await?;
    if asked.out.trim() != "running" {
        let failed = agent.run("systemctl --failed --no-legend; journalctl -b -p 3 --no-pager", 60).await?;
        bail!("systemd says {:?}:\n{}", asked.out.trim(), failed.out);
    }
    Ok(())
}

async fn unpack(agent: &mut Agent) -> anyhow::Result<()> {
    let Output { code, out, err } = agent.run(payload::UNPACK, 180).await?;
    if code == 0 { Ok(()) } else { bail!("unpacking in the guest ended with {code}: {out}{err}") }
}
