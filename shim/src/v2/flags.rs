//! The command line, in the form of Go's flags: one dash or two, `-name value` or `-name=value`, then the action.

use std::ffi::OsString;
use std::path::PathBuf;

use super::V2Error;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Serve,
    Start,
    Delete,
    Info,
    Version,
}

/// What containerd says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) action: Action,
    /// containerd's namespace.
    pub(super) namespace: String,
    /// The container's id.
    pub(super) id: String,
    /// containerd's own gRPC socket; it tells one containerd of a machine from another.
    pub(super) address: String,
    /// The container's directory, if it is not the working directory.
    pub(super) bundle: Option<PathBuf>,
    /// Our own, from `start` to the shim that it starts.
    pub(super) socket: Option<PathBuf>,
    pub(super) debug: bool,
}

/// Reads the arguments.
pub(super) fn parse(args: Vec<OsString>) -> Result<Flags, V2Error> {
    let mut flags = Flags {
        action: Action::Serve,
        namespace: String::new(),
        id: String::new(),
        address: String::new(),
        bundle: None,
        socket: None,
        debug: false,
    };
    let mut args = args.into_iter().map(|arg| arg.to_string_lossy().into_owned());
    while let Some(arg) = args.next() {
        let Some(flag) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
            flags.action = action(&arg)?;
            break;
        };
        let (name, given) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if !switch(&mut flags, name) {
            let value = given.or_else(|| args.next());
            let value = value.ok_or_else(|| V2Error::Usage(format!("-{name} takes a value")))?;
            set(&mut flags, name, value)?;
        }
    }
    if matches!(flags.action, Action::Start | Action::Delete | Action::Serve) {
        require("-namespace", &flags.namespace)?;
        require("-id", &flags.id)?;
    }
    Ok(flags)
}

fn action(word: &str) -> Result<Action, V2Error> {
    match word {
        "start" => Ok(Action::Start),
        "delete" => Ok(Action::Delete),
        other => Err(V2Error::Usage(format!("{other:?} is no action: start or delete"))),
    }
}

fn switch(flags: &mut Flags, name: &str) -> bool {
    match name {
        "debug" => flags.debug = true,
        "info" => flags.action = Action::Info,
        "v" | "version" => flags.action = Action::Version,
        _ => return false,
    }
    true
}

fn set(flags: &mut Flags, name: &str, value: String) -> Result<(), V2Error> {
    match name {
        "namespace" => flags.namespace = value,
        "id" => flags.id = value,
        "address" => flags.address = value,
        "bundle" => flags.bundle = Some(value.into()).filter(|path: &PathBuf| !path.as_os_str().is_empty()),
        "socket" => flags.socket = Some(value.into()),
        // Events go over TTRPC_ADDRESS; nothing is published by that program.
        "publish-binary" | "debug-socket" => {}
        other => return Err(V2Error::Usage(format!("-{other} is not known"))),
    }
    Ok(())
}

/// Both become parts of paths and keys.
fn require(name: &str, value: &str) -> Result<(), V2Error> {
    if value.is_empty() || value.contains(['/', '\0']) || value == ".." || value == "." {
        return Err(V2Error::Usage(format!("{name} takes a plain name, not {value:?}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Flags, V2Error> {
        parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn containerds_own_lines_are_understood() {
        let start =
            "-namespace k8s.io -address /run/c.sock -publish-binary /bin/containerd -id x -debug start";
        let flags = read(start).unwrap();
        assert_eq!((flags.action, flags.id.as_str(), flags.debug), (Action::Start, "x", true));
        let flags = read("--namespace=n --id=x -bundle /b delete").unwrap();
        assert_eq!((flags.action, flags.bundle), (Action::Delete, Some("/b".into())));
        assert_eq!(read("-info").unwrap().action, Action::Info);
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for line in
            ["-namespace n start", "-namespace ../x -id y start", "-namespace n -id .. delete", "-x 1"]
        {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
