//! A subnet that no other run uses: the third byte is taken by a locked file.

use anyhow::{Context, bail};
use std::fmt;
use std::fs::{self, File};

/// `10.213.<n>.0/24`, ours until dropped.
pub(super) struct Subnet {
    number: u8,
    _lock: File,
}

impl Subnet {
    /// Takes the first free one. The lock ends with the process, however it ends.
    pub(super) fn take() -> anyhow::Result<Self> {
        let folder = "/run/lock/berth-e2e-subnets";
        fs::create_dir_all(folder).context(folder)?;
        for number in 1..=250_u8 {
            let lock = File::create(format!("{folder}/{number}"))?;
            if lock.try_lock().is_ok() && !in_use(number) {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("all of 10.213.1-250.0/24 are taken; `cargo xtask clean` frees what killed runs left")
    }
}

/// Whether a route of this host, perhaps of a killed run, still leads there.
fn in_use(number: u8) -> bool {
    let Ok(routes) = fs::read_to_string("/proc/net/route") else { return false };
    let wanted = format!("{:08X}", u32::from_le_bytes([10, 213, number, 0]));
    routes.lines().any(|line| line.split_whitespace().nth(1) == Some(&wanted))
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "10.213.{}.0/24", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::Subnet;

    #[test]
    fn two_at_one_time_differ() {
        let (one, two) = (Subnet::take().unwrap(), Subnet::take().unwrap());
        assert_ne!(one.to_string(), two.to_string());
    }
}
