//! Calling conventions a kernel serves, and the numbers of their system calls.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use berth_core::oci::Arch;
use syscalls::{aarch64, arm, x86, x86_64};

/// One calling convention as seccomp sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Abi {
    /// 64-bit x86. `x32` says whether the convention with 32-bit pointers is open too; it shares the audit word and
    /// most numbers, with bit 30 set.
    X86_64 { x32: bool },
    /// 32-bit x86.
    X86,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM.
    Arm,
}

/// The bit that marks a call as x32.
pub(super) const X32_BIT: u32 = 0x4000_0000;

/// Calls that x32 numbers differently from x86_64, from 512 upwards without a gap.
const X32_OWN: [&str; 36] = [
    "rt_sigaction",
    "rt_sigreturn",
    "ioctl",
    "readv",
    "writev",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "execve",
    "ptrace",
    "rt_sigpending",
    "rt_sigtimedwait",
    "rt_sigqueueinfo",
    "sigaltstack",
    "timer_create",
    "mq_notify",
    "kexec_load",
    "waitid",
    "set_robust_list",
    "get_robust_list",
    "vmsplice",
    "move_pages",
    "preadv",
    "pwritev",
    "rt_tgsigqueueinfo",
    "recvmmsg",
    "sendmmsg",
    "process_vm_readv",
    "process_vm_writev",
    "setsockopt",
    "getsockopt",
    "io_setup",
    "io_submit",
    "execveat",
    "preadv2",
    "pwritev2",
];

/// Calls of 32-bit ARM above the table, and other spellings.
const ARM_ALSO: [(&str, u32); 6] = [
    ("sync_file_range2", 341),
    ("breakpoint", 0x000f_0001),
    ("cacheflush", 0x000f_0002),
    ("usr26", 0x000f_0003),
    ("usr32", 0x000f_0004),
    ("set_tls", 0x000f_0005),
];

/// `socketcall` by its first argument.
const SOCKETCALLS: [(&str, u64); 20] = [
    ("socket", 1),
    ("bind", 2),
    ("connect", 3),
    ("listen", 4),
    ("accept", 5),
    ("getsockname", 6),
    ("getpeername", 7),
    ("socketpair", 8),
    ("send", 9),
    ("recv", 10),
    ("sendto", 11),
    ("recvfrom", 12),
    ("shutdown", 13),
    ("setsockopt", 14),
    ("getsockopt", 15),
    ("sendmsg", 16),
    ("recvmsg", 17),
    ("accept4", 18),
    ("recvmmsg", 19),
    ("sendmmsg", 20),
];

/// `ipc` by the lower half of its first argument.
const IPC_CALLS: [(&str, u64); 12] = [
    ("semop", 1),
    ("semget", 2),
    ("semctl", 3),
    ("semtimedop", 4),
    ("msgsnd", 11),
    ("msgrcv", 12),
    ("msgget", 13),
    ("msgctl", 14),
    ("shmat", 21),
    ("shmdt", 22),
    ("shmget", 23),
    ("shmctl", 24),
];

/// A call that stands behind another one.
pub(super) struct Multiplexed {
    /// The call in front.
    pub(super) front: &'static str,
    /// Which bits of its first argument choose.
    pub(super) mask: u64,
    /// What they say.
    pub(super) choice: u64,
}

/// The names and numbers of one convention.
pub(super) struct Table {
    numbers: Numbers,
}

type Numbers = HashMap<&'static str, u32, BuildHasherDefault<Fnv>>;

/// FNV-1a. The keys are the kernel's names and nobody else's, so that no profile can make them collide; a table is made for
/// each container, and a hash that withstands an attacker was a third of that.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Table {
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }
}

/// Numbers and names of one table of the crate.
macro_rules! table {
    ($arch:ident) => {
        (0..=$arch::Sysno::last().id().unsigned_abs())
            .filter_map(|number| Some(($arch::Sysno::new(number as usize)?.name(), number)))
            .collect()
    };
}

impl Abi {
    /// The conventions of a profile that this machine's kernel can serve, its own first. Its own is always among them,
    /// as in the field, even if the profile names others only.
    pub(super) fn of_profile(architectures: &[Arch], machine: &str) -> Vec<Self> {
        let named = |arch| architectures.contains(&arch);
        match machine {
            "aarch64" => {
                std::iter::once(Self::Aarch64).chain(named(Arch::ScmpArchArm).then_some(Self::Arm)).collect()
            }
            _ => std::iter::once(Self::X86_64 { x32: named(Arch::ScmpArchX32) })
                .chain(named(Arch::ScmpArchX86).then_some(Self::X86))
                .collect(),
        }
    }

    /// The audit word that the kernel puts into `seccomp_data`.
    pub(super) fn audit(self) -> u32 {
        match self {
            Self::X86_64 { .. } => 0xc000_003e,
            Self::X86 => 0x4000_0003,
            Self::Aarch64 => 0xc000_00b7,
            Self::Arm => 0x4000_0028,
        }
    }

    pub(super) fn table(self) -> Table {
        let mut numbers: Numbers = match self {
            Self::X86_64 { .. } => table!(x86_64),
            Self::X86 => table!(x86),
            Self::Aarch64 => table!(aarch64),
            Self::Arm => table!(arm),
        };
        match self {
            // The table has the name of the C library.
            Self::Aarch64 => drop(numbers.insert("newfstatat", 79)),
            Self::Arm => numbers.extend(ARM_ALSO),
            Self::X86_64 { .. } | Self::X86 => {}
        }
        Table { numbers }
    }

    /// A second number of the same call.
    pub(super) fn second_number(self, name: &str) -> Option<u32> {
        match self {
            Self::X86_64 { x32: true } => {
                let at = X32_OWN.iter().position(|own| *own == name)?;
                u32::try_from(512 + at).ok()
            }
            _ => None,
        }
    }

    /// Whether a call can also be made through another one.
    pub(super) fn multiplexed(self, name: &str) -> Option<Multiplexed> {
        if self != Self::X86 {
            return None;
        }
        let find =
            |table: &[(&str, u64)]| table.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice);
        if let Some(choice) = find(&SOCKETCALLS) {
            return Some(Multiplexed { front: "socketcall", mask: u64::from(u32::MAX), choice });
        }
        find(&IPC_CALLS).map(|choice| Multiplexed { front: "ipc", mask: 0xffff, choice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_know_old_and_new_calls() {
        for (abi, name, number) in [
            (Abi::X86_64 { x32: false }, "read", 0),
            (Abi::X86_64 { x32: false }, "file_setattr", 469),
            (Abi::X86, "exit", 1),
            (Abi::X86, "clock_gettime64", 403),
            (Abi::Aarch64, "newfstatat", 79),
            (Abi::Aarch64, "file_setattr", 469),
            (Abi::Arm, "set_tls", 0xf0005),
            (Abi::Arm, "arm_fadvise64_64", 270),
        ] {
            assert_eq!(abi.table().number(name), Some(number), "{abi:?} {name}");
        }
        assert_eq!(Abi::X86_64 { x32: true }.second_number("pwritev2"), Some(547));
        assert_eq!(Abi::X86.second_number("pwritev2"), None);
    }

    #[test]
    fn the_machines_own_convention_is_always_there() {
        assert_eq!(Abi::of_profile(&[Arch::ScmpArchAarch64], "x86_64"), [Abi::X86_64 { x32: false }]);
        assert_eq!(Abi::of_profile(&[Arch::ScmpArchArm], "aarch64"), [Abi::Aarch64, Abi::Arm]);
    }
}
