//! `delete`: whatever a shim that died has left of a container goes. Can be repeated; nothing there is a success.

use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use berth_cgroup::{Cgroup, CgroupError, CgroupPath, Hierarchies};
use berth_core::Timestamp;
use berth_proto::containerd::DeleteResponse;
use berth_runtime::Hooked;
use prost::Message;

use super::flags::Flags;
use super::record::{self, Ended, Record};
use super::{About, V2Error, serve};
use crate::oci::container::started_ticks;

/// The code of a program that was killed with its shim.
const KILLED: u8 = 137;

/// Cleans up and answers on standard output.
pub(super) fn main(flags: &Flags) -> Result<(), V2Error> {
    let here = || std::env::current_dir().about(|| "find the working directory".to_owned());
    let bundle = flags.bundle.clone().map_or_else(here, Ok)?;
    let record = Record::load(&bundle);
    if let Some(record) = &record {
        end(&bundle, record)?;
    }
    berth_runtime::unmount_root(&bundle.join("rootfs"))?;
    let ended = Ended::load(&bundle).unwrap_or(Ended { code: KILLED, at: Timestamp::now() });
    record::remove(&bundle);
    remove_socket(&bundle);
    let answer = DeleteResponse {
        pid: record.map_or(0, |record| record.pid.unsigned_abs()),
        exit_status: ended.code.into(),
        exited_at: Some(serve::time(ended.at)),
    };
    std::io::stdout().write_all(&answer.encode_to_vec()).about(|| "answer containerd".to_owned())
}

/// Kills what still runs and removes its cgroup.
fn end(bundle: &Path, record: &Record) -> Result<(), V2Error> {
    if let Ok(pidfd) = berth_sys::pidfd::open(record.pid)
        && started_ticks(record.pid) == Some(record.started_ticks)
    {
        berth_runtime::kill(&pidfd, 9)?;
    }
    let runtime = |error: berth_runtime::Error| V2Error::Runtime(error);
    let path = CgroupPath::recorded(&record.cgroup).map_err(|e| runtime(e.into()))?;
    let hierarchies = Hierarchies::discover().map_err(|e| runtime(e.into()))?;
    let cgroup = match Cgroup::open(&hierarchies, &path) {
        Ok(cgroup) => Some(cgroup),
        Err(CgroupError::NotFound { .. }) => None,
        Err(error) => return Err(runtime(error.into())),
    };
    match crate::task::create::load(&bundle.join("config.json")) {
        Ok(spec) => {
            let hooked = Hooked { id: &record.id, bundle, spec: &spec };
            for warning in berth_runtime::delete_parts(hooked, cgroup.as_ref())? {
                eprintln!("container {}: {warning}", record.id);
            }
        }
        // Without its configuration there are no hooks to run.
        Err(_) => {
            if let Some(cgroup) = cgroup {
                cgroup.kill().and_then(|()| cgroup.delete()).map_err(|e| runtime(e.into()))?;
            }
        }
    }
    Ok(())
}

/// A socket at which nobody listens any more.
fn remove_socket(bundle: &Path) {
    let Ok(address) = std::fs::read_to_string(bundle.join("address")) else { return };
    let path = Path::new(address.trim().strip_prefix("unix://").unwrap_or(""));
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket());
    if is_socket && berth_proto::ttrpc::socket::connect_now(path).is_err() {
        let _removed_by_another = std::fs::remove_file(path);
    }
}
