//! Capabilities by name and by number.

use berth_core::oci::{Capabilities, Capability, LinuxCapabilities};

/// CAP_SYS_ADMIN, which installing a filter takes without no_new_privs.
pub(crate) const SYS_ADMIN: u64 = 1 << 21;

/// Every capability, as `CAP_*`, sorted by number.
pub fn all_names() -> Vec<String> {
    Capability::NAMES.iter().map(|name| format!("CAP_{name}")).collect()
}

/// The five sets of a process as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sets {
    pub(crate) bounding: u64,
    pub(crate) permitted: u64,
    pub(crate) effective: u64,
    pub(crate) inheritable: u64,
    pub(crate) ambient: u64,
}

impl Sets {
    /// What config.json says; a set that it leaves out is empty.
    pub(crate) fn from_spec(capabilities: Option<&LinuxCapabilities>) -> Self {
        let Some(c) = capabilities else { return Self::default() };
        Self {
            bounding: bits(c.bounding().as_ref()),
            permitted: bits(c.permitted().as_ref()),
            effective: bits(c.effective().as_ref()),
            inheritable: bits(c.inheritable().as_ref()),
            ambient: bits(c.ambient().as_ref()),
        }
    }

    /// Without what `host` lacks: nobody can give it.
    pub(crate) fn within(self, host: u64) -> Self {
        Self {
            bounding: self.bounding & host,
            permitted: self.permitted & host,
            effective: self.effective & host,
            inheritable: self.inheritable & host,
            ambient: self.ambient & host,
        }
    }

    /// Every capability that is in any set.
    pub(crate) fn union(self) -> u64 {
        self.bounding | self.permitted | self.effective | self.inheritable | self.ambient
    }
}

fn bits(set: Option<&Capabilities>) -> u64 {
    set.into_iter().flatten().fold(0, |bits, capability| bits | 1 << *capability as u64)
}

/// The names of the capabilities in `bits`.
pub(crate) fn names(bits: u64) -> String {
    let names: Vec<&str> =
        Capability::NAMES.iter().enumerate().filter(|(n, _)| bits & (1 << n) != 0).map(|(_, n)| *n).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str) -> Option<usize> {
        name.parse::<Capability>().ok().map(|capability| capability as usize)
    }

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(number("CAP_CHOWN"), Some(0));
        assert_eq!(number("cap_sys_admin"), Some(21));
        assert_eq!(number("CHECKPOINT_RESTORE"), Some(40));
        assert_eq!(1 << number("SYS_ADMIN").expect("known"), SYS_ADMIN);
        assert_eq!(number("CAP_NONSENSE"), None);
    }

    #[test]
    fn every_name_of_the_types_crate_is_known() {
        let set = [Capability::Bpf, Capability::AuditControl, Capability::MacAdmin].into();
        assert_eq!(bits(Some(&set)).count_ones(), 3);
    }
}
