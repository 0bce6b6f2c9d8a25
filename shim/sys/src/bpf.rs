//! bpf(2) for one purpose: the device filter of a v2 control group.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

const PROG_LOAD: libc::c_long = 5;
const PROG_ATTACH: libc::c_long = 8;
const PROG_DETACH: libc::c_long = 9;
const PROG_GET_FD_BY_ID: libc::c_long = 13;
const PROG_QUERY: libc::c_long = 16;

const TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_CGROUP_DEVICE: u32 = 6;
const ALLOW_MULTI: u32 = 2;
const REPLACE: u32 = 4;
const LICENSE: &[u8] = b"Apache-2.0\0";

/// Most programs the kernel lets one group have.
const MOST_PROGRAMS: usize = 64;

/// The arguments of PROG_LOAD, as far as they are used; the kernel takes the rest as zero.
#[repr(C)]
#[derive(Default)]
struct LoadArgs {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct AttachArgs {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
    replaced: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct QueryArgs {
    target: u32,
    kind: u32,
    query_flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct IdArgs {
    id: u32,
    next: u32,
    flags: u32,
    pad: u32,
}

/// Loads a device program: 8-byte instructions in native order.
///
/// # Errors
/// What bpf(2) says: EPERM without CAP_BPF or CAP_SYS_ADMIN, EACCES or EINVAL from the verifier.
pub fn load_device_program(instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut args = LoadArgs {
        kind: TYPE_CGROUP_DEVICE,
        count: u32::try_from(instructions.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?,
        instructions: instructions.as_ptr().expose_provenance() as u64,
        license: LICENSE.as_ptr().expose_provenance() as u64,
        ..LoadArgs::default()
    };
    args.name[..13].copy_from_slice(b"berth_devices");
    // SAFETY: the two addresses point to the borrowed slices above, which outlive the call.
    let fd = unsafe { bpf(PROG_LOAD, &mut args) }?;
    // SAFETY: PROG_LOAD gives a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches `program` to a control group, beside other programs or in place of `replaced`.
///
/// # Errors
/// What bpf(2) says.
pub fn attach(group: impl AsFd, program: impl AsFd, replaced: Option<&OwnedFd>) -> io::Result<()> {
    let mut args = AttachArgs {
        target: group.as_fd().as_raw_fd() as u32,
        program: program.as_fd().as_raw_fd() as u32,
        kind: ATTACH_CGROUP_DEVICE,
        flags: ALLOW_MULTI,
        ..AttachArgs::default()
    };
    if let Some(old) = replaced {
        args.flags |= REPLACE;
        args.replaced = old.as_raw_fd() as u32;
    }
    // SAFETY: PROG_ATTACH reads descriptors only.
    unsafe { bpf(PROG_ATTACH, &mut args) }.map(drop)
}

/// Takes `program` off a control group.
///
/// # Errors
/// What bpf(2) says: ENOENT if it is not attached there.
pub fn detach(group: impl AsFd, program: impl AsFd) -> io::Result<()> {
    let mut args = AttachArgs {
        target: group.as_fd().as_raw_fd() as u32,
        program: program.as_fd().as_raw_fd() as u32,
        kind: ATTACH_CGROUP_DEVICE,
        ..AttachArgs::default()
    };
    // SAFETY: PROG_DETACH reads descriptors only.
    unsafe { bpf(PROG_DETACH, &mut args) }.map(drop)
}

/// The device programs attached to this very group.
///
/// # Errors
/// What bpf(2) says.
pub fn attached(group: impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut ids = [0u32; MOST_PROGRAMS];
    let mut args = QueryArgs {
        target: group.as_fd().as_raw_fd() as u32,
        kind: ATTACH_CGROUP_DEVICE,
        ids: ids.as_mut_ptr().expose_provenance() as u64,
        count: MOST_PROGRAMS as u32,
        ..QueryArgs::default()
    };
    // SAFETY: `ids` has room for `count` numbers and outlives the call.
    unsafe { bpf(PROG_QUERY, &mut args) }?;
    ids[..MOST_PROGRAMS.min(args.count as usize)].iter().map(|id| program_by_id(*id)).collect()
}

fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut args = IdArgs { id, ..IdArgs::default() };
    // SAFETY: PROG_GET_FD_BY_ID reads numbers only.
    let fd = unsafe { bpf(PROG_GET_FD_BY_ID, &mut args) }?;
    // SAFETY: it gives a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// The addresses in `args` must be what `command` expects, and stay valid during the call.
unsafe fn bpf<T>(command: libc::c_long, args: &mut T) -> io::Result<RawFd> {
    // SAFETY: `args` is exclusively borrowed and of the size given; its addresses are the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, args as *mut T, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}
