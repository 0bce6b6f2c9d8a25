//! System calls that no worker ever needs: what would bring network, other processes, mounts, or the kernel's more
//! adventurous interfaces into reach of a decoder that has been taken over.

/// Loads the 32-bit word at an offset of `seccomp_data`.
const LOAD: u16 = 0x20;
/// Jumps if the accumulator equals the constant.
const JUMP_EQUAL: u16 = 0x15;
/// Jumps if the accumulator is at least the constant.
const JUMP_AT_LEAST: u16 = 0x35;
/// Jumps if the accumulator has any bit of the constant.
const JUMP_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
/// ERRNO with EPERM.
const REFUSE: u32 = 0x0005_0001;
/// ERRNO with ENOSYS: the caller then takes the older call.
const UNKNOWN: u32 = 0x0005_0026;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
/// The low half of the first argument.
const OFFSET_FLAGS: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
/// Numbers from here on are x32's.
const X32: u32 = 0x4000_0000;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCH: u32 = 0xc000_00f3;

/// Processes of its own, but not threads, by the calls that say so in their number.
#[cfg(target_arch = "x86_64")]
const FORKS: &[libc::c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: &[libc::c_long] = &[];

/// Refused with EPERM.
const DENIED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_reboot,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
];

/// The filter as the kernel takes it.
#[must_use]
pub fn program() -> Vec<u8> {
    let mut code = Vec::new();
    let mut add = |op: u16, yes: u8, no: u8, value: u32| {
        code.extend_from_slice(&op.to_ne_bytes());
        code.extend_from_slice(&[yes, no]);
        code.extend_from_slice(&value.to_ne_bytes());
    };
    add(LOAD, 0, 0, OFFSET_ARCH);
    add(JUMP_EQUAL, 1, 0, ARCH);
    add(RETURN, 0, 0, KILL);
    add(LOAD, 0, 0, OFFSET_NUMBER);
    add(JUMP_AT_LEAST, 0, 1, X32);
    add(RETURN, 0, 0, KILL);
    let number = |call: libc::c_long| u32::try_from(call).unwrap_or(u32::MAX);
    for call in DENIED.iter().chain(FORKS) {
        add(JUMP_EQUAL, 0, 1, number(*call));
        add(RETURN, 0, 0, REFUSE);
    }
    // The flags of clone3 are in memory, where a filter cannot see them. Threads are made by clone then.
    add(JUMP_EQUAL, 0, 1, number(libc::SYS_clone3));
    add(RETURN, 0, 0, UNKNOWN);
    add(JUMP_EQUAL, 0, 3, number(libc::SYS_clone));
    add(LOAD, 0, 0, OFFSET_FLAGS);
    add(JUMP_BITS, 1, 0, libc::CLONE_THREAD.cast_unsigned());
    add(RETURN, 0, 0, REFUSE);
    add(RETURN, 0, 0, ALLOW);
    code
}
