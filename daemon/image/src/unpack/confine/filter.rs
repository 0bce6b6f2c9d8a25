//! System calls that no worker ever needs: what would bring network, other processes, mounts, or the kernel's more
//! adventurous interfaces into reach of a decoder that has been taken over.

/// Loads the 32-bit word at an offset of `seccomp_data`.
const LOAD: u16 = 0x20;
/// Jumps if the accumulator equals the constant.
const JUMP_EQUAL: u16 = 0x15;
/// Jumps if the accumulator is at least the constant.
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
/// ERRNO with EPERM.
const REFUSE: u32 = 0x0005_0001;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
/// Numbers from here on are x32's.
const X32: u32 = 0x4000_0000;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCH: u32 = 0xc000_00f3;

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
    for number in DENIED {
        add(JUMP_EQUAL, 0, 1, u32::try_from(*number).unwrap_or(u32::MAX));
        add(RETURN, 0, 0, REFUSE);
    }
    add(RETURN, 0, 0, ALLOW);
    code
}
