//! The process: what is executed, where, and with which environment.

use super::super::EnvValue;
use super::Input;
use super::capabilities::Sets;
use crate::pod::Error;
use berth_core::oci::{PosixRlimit, PosixRlimitType, Process, User};
use std::collections::HashMap;

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Soft limit of open files: high ones make old programs close a million descriptors.
const NOFILE_SOFT: u64 = 1024;

pub(super) fn process(input: &Input<'_>, capabilities: &Sets) -> Result<Process, Error> {
    let (config, security) = (input.config, &input.config.security);
    Ok(Process {
        terminal: Some(config.tty),
        user: User::default(),
        args: Some(args(input)?),
        env: Some(env(input)?),
        cwd: cwd(input)?.into(),
        capabilities: Some(capabilities.to_oci()),
        rlimits: Some(vec![nofile(input)]),
        no_new_privileges: Some(security.no_new_privs && !security.privileged),
        apparmor_profile: input.facts.apparmor.clone(),
        oom_score_adj: oom_score_adj(input),
        ..Process::default()
    })
}

fn args(input: &Input<'_>) -> Result<Vec<String>, Error> {
    let (config, image) = (input.config, input.image);
    let args = match (config.command.is_empty(), config.args.is_empty()) {
        (true, true) => [image.entrypoint.as_slice(), &image.cmd].concat(),
        (true, false) => [image.entrypoint.as_slice(), &config.args].concat(),
        (false, _) => [config.command.as_slice(), &config.args].concat(),
    };
    match args.first().map(String::as_str) {
        None | Some("") => {
            let problem = "is empty, and so are the image's entrypoint and command: nothing to run";
            Err(Error::invalid("config.command", problem))
        }
        Some(_) if args.iter().any(|arg| arg.contains('\0')) => {
            Err(Error::invalid("config.args", "holds a NUL byte"))
        }
        Some(_) => Ok(args),
    }
}

/// The image's, then the runtime's own, then the request's: later ones of the same name win, in the first one's place.
fn env(input: &Input<'_>) -> Result<Vec<String>, Error> {
    let mut all = Env::default();
    for entry in &input.image.env {
        all.set(entry.clone());
    }
    if !all.places.contains_key("PATH") {
        all.set(PATH.to_owned());
    }
    if input.config.tty {
        all.set("TERM=xterm".to_owned());
    }
    all.set(format!("HOSTNAME={}", input.facts.hostname));
    for (key, value) in &input.config.envs {
        let nul = match value {
            EnvValue::Text(text) => text.contains('\0'),
            EnvValue::Bytes(bytes) => bytes.contains(&0),
        };
        if nul || key.is_empty() || key.contains(['=', '\0']) {
            let problem =
                format!("{key:?}: a name is not empty and holds no \"=\"; neither part holds a NUL byte");
            return Err(Error::invalid("config.envs", problem));
        }
        if let EnvValue::Text(text) = value {
            all.set(format!("{key}={text}"));
        }
    }
    Ok(all.entries)
}

/// An environment in its order. An image may have a million entries, so names are not looked for one by one.
#[derive(Default)]
struct Env {
    entries: Vec<String>,
    places: HashMap<String, usize>,
}

impl Env {
    fn set(&mut self, entry: String) {
        match self.places.get(name(&entry)) {
            Some(place) => self.entries[*place] = entry,
            None => {
                self.places.insert(name(&entry).to_owned(), self.entries.len());
                self.entries.push(entry);
            }
        }
    }
}

fn name(entry: &str) -> &str {
    entry.split('=').next().unwrap_or_default()
}

fn cwd(input: &Input<'_>) -> Result<String, Error> {
    let wanted = [&input.config.working_dir, &input.image.working_dir];
    let cwd = wanted.into_iter().find(|dir| !dir.is_empty());
    match cwd {
        None => Ok("/".to_owned()),
        Some(dir) if dir.starts_with('/') && !dir.contains('\0') => Ok(dir.clone()),
        Some(dir) if dir.contains('\0') => Err(Error::invalid("config.working_dir", "holds a NUL byte")),
        // Images may say it relative to the root.
        Some(dir) => Ok(format!("/{dir}")),
    }
}

fn nofile(input: &Input<'_>) -> PosixRlimit {
    let hard = input.facts.nofile_hard.max(1);
    PosixRlimit { typ: PosixRlimitType::RlimitNofile, hard, soft: NOFILE_SOFT.min(hard) }
}

fn oom_score_adj(input: &Input<'_>) -> Option<i32> {
    let asked = input.config.resources.oom_score_adj.clamp(-1000, 1000);
    let given = asked.max(input.facts.oom_floor.unwrap_or(-1000));
    i32::try_from(given).ok()
}
