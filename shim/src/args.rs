//! The command line, read by hand: the daemon is the only caller of `serve`, and every byte of the binary counts.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What this process is to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The monitor of one pod.
    Serve(Serve),
    /// The runtime's child in a new container.
    Init,
    /// The first process of a pod's shared pid namespace.
    Holder,
    /// The OCI command line, with its arguments.
    Oci(Vec<OsString>),
    /// containerd's shim, with its arguments.
    V2(Vec<OsString>),
    /// Print the version.
    Version,
    /// Print how it is called.
    Help,
}

/// The arguments of `serve`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Serve {
    /// The pod's id.
    pub(crate) sandbox: String,
    /// Where to listen.
    pub(crate) socket: PathBuf,
    /// The pod's own directory, for the journal.
    pub(crate) state: PathBuf,
}

/// How this program is called.
pub(crate) const USAGE: &str = "usage: berth-shim COMMAND ...

  oci COMMAND ...       the OCI command line, as runc's; also under the name berth-oci; see oci --help
  serve --sandbox ID --socket PATH --state DIR
                        the monitor of one pod, started by berthd
  init, holder          what the runtime starts for itself in a new container or pod
  --version             the version of this program
  --help                this text

Under the name containerd-shim-berth-v1 it is containerd's shim.";

/// A command line that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgsError {
    #[error("not a command of this program\n{USAGE}")]
    Usage,
    #[error("serve: {0} is missing")]
    Missing(&'static str),
    #[error("serve: unknown argument {0:?}")]
    Unknown(OsString),
    #[error("serve: the sandbox id {0:?} is not 64 lower-case hex digits")]
    Sandbox(OsString),
    #[error("serve: {0} must be an absolute path")]
    Relative(&'static str),
}

/// Reads a whole command line, the program's name first. Called as `berth-oci`, everything belongs to `oci`; called as
/// `containerd-shim-…`, or with containerd's flags, to the shim.
pub(crate) fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Command, ArgsError> {
    let program = args.next().unwrap_or_default();
    let name = program.as_encoded_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if name == b"berth-oci" {
        return Ok(Command::Oci(args.collect()));
    }
    if name.starts_with(b"containerd-shim-") {
        return Ok(Command::V2(args.collect()));
    }
    let verb = args.next().ok_or(ArgsError::Usage)?;
    match verb.as_encoded_bytes() {
        b"serve" => serve(args).map(Command::Serve),
        b"init" => Ok(Command::Init),
        b"holder" => Ok(Command::Holder),
        b"oci" => Ok(Command::Oci(args.collect())),
        b"-namespace" | b"-id" | b"-info" | b"-debug" => {
            Ok(Command::V2(std::iter::once(verb).chain(args).collect()))
        }
        b"--version" => Ok(Command::Version),
        b"--help" | b"-h" | b"help" => Ok(Command::Help),
        _ => Err(ArgsError::Usage),
    }
}

fn serve(mut args: impl Iterator<Item = OsString>) -> Result<Serve, ArgsError> {
    let (mut sandbox, mut socket, mut state) = (None, None, None);
    while let Some(name) = args.next() {
        let place = match name.to_str() {
            Some("--sandbox") => &mut sandbox,
            Some("--socket") => &mut socket,
            Some("--state") => &mut state,
            _ => return Err(ArgsError::Unknown(name)),
        };
        *place = args.next();
    }
    let sandbox = sandbox.ok_or(ArgsError::Missing("--sandbox"))?;
    Ok(Serve {
        sandbox: id(&sandbox).ok_or(ArgsError::Sandbox(sandbox))?,
        socket: absolute("--socket", socket)?,
        state: absolute("--state", state)?,
    })
}

fn id(text: &OsStr) -> Option<String> {
    berth_core::SandboxId::parse(text.to_str()?).ok().map(|id| id.to_string())
}

fn absolute(name: &'static str, value: Option<OsString>) -> Result<PathBuf, ArgsError> {
    let path = PathBuf::from(value.ok_or(ArgsError::Missing(name))?);
    if path.is_absolute() { Ok(path) } else { Err(ArgsError::Relative(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, ArgsError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn serve_takes_its_three_arguments_in_any_order() {
        let id = "a1".repeat(32);
        let wanted = Serve { sandbox: id.clone(), socket: "/run/s".into(), state: "/run/p".into() };
        for line in [
            format!("berth-shim serve --sandbox {id} --socket /run/s --state /run/p"),
            format!("/x/berth-shim serve --state /run/p --socket /run/s --sandbox {id}"),
        ] {
            assert_eq!(read(&line), Ok(Command::Serve(Serve { ..clone(&wanted) })));
        }
    }

    fn clone(serve: &Serve) -> Serve {
        Serve { sandbox: serve.sandbox.clone(), socket: serve.socket.clone(), state: serve.state.clone() }
    }

    #[test]
    fn bad_command_lines_are_named() {
        let id = "a1".repeat(32);
        let cases = [
            ("berth-shim".to_owned(), ArgsError::Usage),
            ("berth-shim run".to_owned(), ArgsError::Usage),
            (
                "berth-shim serve --sandbox x --socket /a --state /b".to_owned(),
                ArgsError::Sandbox("x".into()),
            ),
            (format!("berth-shim serve --sandbox {id} --state /b"), ArgsError::Missing("--socket")),
            (
                format!("berth-shim serve --sandbox {id} --socket a --state /b"),
                ArgsError::Relative("--socket"),
            ),
            (format!("berth-shim serve --sandbox {id} --force"), ArgsError::Unknown("--force".into())),
        ];
        for (line, wanted) in cases {
            assert_eq!(read(&line), Err(wanted), "{line}");
        }
    }

    #[test]
    fn another_name_is_the_oci_command_line() {
        assert_eq!(read("/usr/bin/berth-oci state x"), Ok(Command::Oci(vec!["state".into(), "x".into()])));
        let shim = |words: &[&str]| Ok(Command::V2(words.iter().map(|word| (*word).into()).collect()));
        assert_eq!(read("/usr/bin/containerd-shim-berth-v1 -v"), shim(&["-v"]));
        assert_eq!(read("/opt/berth-shim -namespace n start"), shim(&["-namespace", "n", "start"]));
        assert_eq!(read("berth-shim oci state x"), Ok(Command::Oci(vec!["state".into(), "x".into()])));
    }
}
