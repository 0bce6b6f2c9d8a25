//! `start`: the address of a shim that is to serve a container; a new one, or the pod's own.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use berth_cgroup::{Cgroup, CgroupPath, Driver, Hierarchies};
use berth_proto::containerd::BootstrapParams;
use berth_sys::namespace::Namespaces;
use berth_sys::spawn::{Child, Plan, spawn};
use prost::Message;
use rustix::fs::OFlags;
use serde::Deserialize;

use super::flags::Flags;
use super::options::Options;
use super::{About, NAME, V2Error};

/// Standard input is read up to here.
const INPUT_MAX: u64 = 10 << 20;

/// Where sockets are, unless containerd says otherwise.
const SOCKETS: &str = "/run/containerd/s";

/// Where a shim finds containerd's ttrpc socket.
pub(super) const TTRPC_ADDRESS: &str = "TTRPC_ADDRESS";

/// Set by those containerds that read the answer as JSON.
const READS_JSON: &str = "MAX_SHIM_VERSION";

/// Containers with the same value share a shim.
const GROUPS: [&str; 2] = ["io.containerd.runc.v2.group", "io.kubernetes.cri.sandbox-id"];

/// Answers on standard output.
pub(super) fn main(flags: &Flags) -> Result<(), V2Error> {
    let params = bootstrap(&flags.id);
    let sockets = params.as_ref().map(|params| params.socket_dir.as_str()).filter(|path| !path.is_empty());
    let group = group(Path::new("config.json"))?.unwrap_or_else(|| flags.id.clone());
    let socket =
        Path::new(sockets.unwrap_or(SOCKETS)).join(socket_name(&flags.address, &flags.namespace, &group));
    if let Some(listener) = listen(&socket)? {
        let child = serve(flags, &socket, &listener, params.as_ref()).inspect_err(|_| {
            let _ = std::fs::remove_file(&socket);
        })?;
        let _gone =
            params.as_ref().map(|params| join_cgroup(params, child.pid)).transpose().inspect_err(|_| {
                let _ = berth_sys::pidfd::send_signal(&child.pidfd, 9);
                let _ = std::fs::remove_file(&socket);
            })?;
    }
    let address = format!("unix://{}", socket.display());
    write_address(&address)?;
    let reads_json = params.is_some() || std::env::var_os(READS_JSON).is_some();
    let answer = match (reads_json, params.is_some()) {
        (false, _) => address,
        (true, new) => {
            let version = if new { 3 } else { 2 };
            serde_json::json!({"version": version, "address": address, "protocol": "ttrpc"}).to_string()
        }
    };
    std::io::stdout().write_all(answer.as_bytes()).about(|| "answer containerd".to_owned())
}

/// What newer containerds say on standard input; older ones say something else there, or nothing.
fn bootstrap(id: &str) -> Option<BootstrapParams> {
    let mut input = Vec::new();
    std::io::stdin().take(INPUT_MAX).read_to_end(&mut input).ok()?;
    BootstrapParams::decode(&*input).ok().filter(|params| params.instance_id == id)
}

#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The group that a container's configuration names.
fn group(config: &Path) -> Result<Option<String>, V2Error> {
    let bytes = std::fs::read(config).about(|| format!("read {}", config.display()))?;
    let parsed: Result<Annotated, _> = serde_json::from_slice(&bytes);
    let parsed = parsed.map_err(|error| V2Error::Usage(format!("{}: {error}", config.display())))?;
    Ok(GROUPS.iter().find_map(|name| parsed.annotations.get(*name)).cloned())
}

/// A name of 32 digits for the group of one containerd's namespace: paths of sockets have to be short. FNV-1a, since
/// every build of this program has to come to the same one.
fn socket_name(containerd: &str, namespace: &str, group: &str) -> String {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let words = [containerd, namespace, group].map(|word| word.bytes().chain(std::iter::once(0)));
    let hash =
        words.into_iter().flatten().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

/// Listens at the address; nothing if somebody serves there already. A socket that nobody serves any more is replaced.
fn listen(socket: &Path) -> Result<Option<UnixListener>, V2Error> {
    let failed = || format!("listen at {}", socket.display());
    if let Some(directory) = socket.parent() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory).about(failed)?;
    }
    let mut tries = 0;
    loop {
        match UnixListener::bind(socket) {
            Ok(listener) => {
                std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600)).about(failed)?;
                return Ok(Some(listener));
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse && tries < 3 => {
                if berth_proto::ttrpc::socket::connect_now(socket).is_ok() {
                    return Ok(None);
                }
                tries += 1;
                let _removed_by_another = std::fs::remove_file(socket);
            }
            Err(error) => return Err(error).about(failed),
        }
    }
}

/// Starts the shim that serves the listening socket.
fn serve(
    flags: &Flags,
    socket: &Path,
    listener: &UnixListener,
    params: Option<&BootstrapParams>,
) -> Result<Child, V2Error> {
    let failed = || "start the shim".to_owned();
    let exe = berth_sys::sealed_self().about(|| "seal the shim's own binary".to_owned())?;
    let null = File::options().read(true).write(true).open("/dev/null").about(failed)?;
    let log = log(&null).about(failed)?;
    let socket = socket.display().to_string();
    let mut argv = vec![NAME, "-namespace", &flags.namespace, "-id", &flags.id];
    argv.extend(["-address", &flags.address, "-socket", &socket]);
    if flags.debug {
        argv.push("-debug");
    }
    let argv: Result<Vec<CString>, _> = argv.into_iter().map(CString::new).collect();
    let plan = Plan {
        exe: exe.as_fd(),
        argv: &argv.map_err(std::io::Error::from).about(failed)?,
        env: &environment(params),
        fds: &[null.as_fd(), null.as_fd(), log.as_fd(), listener.as_fd()],
        namespaces: Namespaces::empty(),
        cgroup: None,
    };
    spawn(&plan).about(failed)
}

/// The FIFO that containerd reads. Never blocking: who does not read it loses lines, not containers.
fn log(null: &File) -> std::io::Result<OwnedFd> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    match File::options().write(true).custom_flags(flags).open("log") {
        Ok(fifo) => Ok(fifo.into()),
        Err(_) => null.try_clone().map(OwnedFd::from),
    }
}

fn environment(params: Option<&BootstrapParams>) -> Vec<CString> {
    let told = params.map(|params| params.containerd_ttrpc_address.as_str()).filter(|told| !told.is_empty());
    let address = told.map(Into::into).or_else(|| std::env::var_os(TTRPC_ADDRESS)).unwrap_or_default();
    let own = std::env::vars_os().filter(|(name, _)| name != TTRPC_ADDRESS);
    own.chain(std::iter::once((TTRPC_ADDRESS.into(), address)))
        .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok())
        .collect()
}

/// The runtime's option `ShimCgroup`.
fn join_cgroup(params: &BootstrapParams, pid: i32) -> Result<(), V2Error> {
    let given = params.extensions.iter().filter_map(|extension| extension.value.as_ref());
    for any in given {
        let Some(path) = Options::read(Some(any))?.shim_cgroup else { continue };
        let error = |error: berth_runtime::Error| V2Error::Runtime(error);
        let path = CgroupPath::parse(Driver::Cgroupfs, &path).map_err(|e| error(e.into()))?;
        let hierarchies = Hierarchies::discover().map_err(|e| error(e.into()))?;
        let group = Cgroup::open(&hierarchies, &path).map_err(|e| error(e.into()))?;
        group.join(pid).map_err(|e| error(e.into()))?;
    }
    Ok(())
}

/// The file by which a containerd that was restarted finds the shim again.
fn write_address(address: &str) -> Result<(), V2Error> {
    let (fresh, place) = (PathBuf::from(".address"), Path::new("address"));
    let written = std::fs::write(&fresh, address).and_then(|()| std::fs::rename(&fresh, place));
    written.about(|| "write the file address of the bundle".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_containers_share_a_name_and_nobody_else() {
        let name = socket_name("/run/c.sock", "k8s.io", "pod");
        assert_eq!(name, socket_name("/run/c.sock", "k8s.io", "pod"));
        assert_eq!(name.len(), 32);
        for (containerd, namespace, group) in [
            ("/run/d.sock", "k8s.io", "pod"),
            ("/run/c.sock", "k8s.iop", "od"),
            ("/run/c.sock", "k8s.io", "pod2"),
        ] {
            assert_ne!(name, socket_name(containerd, namespace, group));
        }
    }

    #[test]
    fn the_group_is_read_from_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config.json");
        let read = |text: &str| {
            std::fs::write(&config, text).unwrap();
            group(&config)
        };
        let text = r#"{"annotations": {"io.kubernetes.cri.sandbox-id": "s", "x": "y"}}"#;
        assert_eq!(read(text).unwrap().as_deref(), Some("s"));
        assert_eq!(read(r#"{"process": {}}"#).unwrap(), None);
        assert!(read("{").is_err());
    }
}
