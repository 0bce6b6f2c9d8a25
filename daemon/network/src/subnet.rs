//! A range of addresses in CIDR form.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A subnet: the address has no bits beyond the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet {
    base: IpAddr,
    prefix: u8,
}

/// The text is no subnet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("subnet {text:?}: {why}; write it like 10.88.0.0/16 or fd00:88::/64")]
pub struct SubnetError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Subnet {
    /// Parses `address/prefix`; bits beyond the prefix are refused.
    pub fn parse(text: &str) -> Result<Self, SubnetError> {
        let fail = |why| SubnetError { text: text.to_owned(), why };
        let (address, prefix) = text.split_once('/').ok_or_else(|| fail("no prefix length"))?;
        let base: IpAddr = address.parse().map_err(|_| fail("not an IP address"))?;
        let prefix: u8 = prefix.parse().map_err(|_| fail("the prefix length is no number"))?;
        if prefix > width(base) {
            return Err(fail("the prefix is longer than the address"));
        }
        let subnet = Self { base: masked(base, prefix), prefix };
        if subnet.base != base {
            return Err(fail("the address has bits beyond the prefix"));
        }
        Ok(subnet)
    }

    /// The subnet that an address with a prefix length lies in; a prefix that is too long is cut.
    pub fn containing(address: IpAddr, prefix: u8) -> Self {
        let prefix = prefix.min(width(address));
        Self { base: masked(address, prefix), prefix }
    }

    /// Length of the prefix.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The lowest address, which nobody has.
    pub fn base(&self) -> IpAddr {
        self.base
    }

    /// Whether this is IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.base.is_ipv4()
    }

    /// The gateway: the first address after the base.
    pub fn gateway(&self) -> IpAddr {
        self.nth(1)
    }

    /// The n-th address, wrapping inside the address family.
    pub fn nth(&self, n: u128) -> IpAddr {
        from_bits(self.base, to_bits(self.base).wrapping_add(n))
    }

    /// Which address of the subnet this is: the inverse of [`Subnet::nth`].
    pub fn place_of(&self, address: IpAddr) -> u128 {
        to_bits(address).wrapping_sub(to_bits(self.base))
    }

    /// How many addresses pods can have: all but base, gateway and (IPv4) broadcast. Capped at 2^32.
    pub fn pods(&self) -> u128 {
        let bits = u32::from(width(self.base) - self.prefix).min(32);
        let reserved = if self.is_ipv4() { 3 } else { 2 };
        (1u128 << bits).saturating_sub(reserved)
    }

    /// Whether an address lies inside.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4() && masked(address, self.prefix) == self.base
    }

    /// Whether two subnets share an address.
    pub fn overlaps(&self, other: &Subnet) -> bool {
        self.contains(other.base) || other.contains(self.base)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn from_bits(like: IpAddr, bits: u128) -> IpAddr {
    match like {
        // Cut on purpose: arithmetic wraps inside the family.
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let host = u32::from(width(address) - prefix);
    let bits = to_bits(address).checked_shr(host).and_then(|b| b.checked_shl(host)).unwrap_or(0);
    from_bits(address, bits)
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Subnet {
    type Error = SubnetError;

    fn try_from(text: String) -> Result<Self, SubnetError> {
        Self::parse(&text)
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        subnet.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_says_what_is_wrong() {
        for (text, why) in [
            ("10.0.0.0", "no prefix length"),
            ("10.0.0/8", "not an IP address"),
            ("10.0.0.0/x", "the prefix length is no number"),
            ("10.0.0.0/33", "the prefix is longer than the address"),
            ("10.0.0.1/24", "the address has bits beyond the prefix"),
            ("fd00::1/64", "the address has bits beyond the prefix"),
        ] {
            assert_eq!(Subnet::parse(text).unwrap_err().why, why, "{text}");
        }
    }

    #[test]
    fn addresses_and_sizes() {
        let v4 = Subnet::parse("10.88.0.0/16").unwrap();
        assert_eq!(v4.gateway().to_string(), "10.88.0.1");
        assert_eq!(v4.nth(258).to_string(), "10.88.1.2");
        assert_eq!(v4.place_of(v4.nth(258)), 258);
        assert_eq!(v4.pods(), 65533);
        let v6 = Subnet::parse("fd00:88::/64").unwrap();
        assert_eq!(v6.gateway().to_string(), "fd00:88::1");
        assert_eq!(Subnet::parse("10.0.0.0/31").unwrap().pods(), 0);
        assert_eq!(Subnet::parse("0.0.0.0/0").unwrap().to_string(), "0.0.0.0/0");
    }

    #[test]
    fn overlap_is_symmetric_and_knows_families() {
        let net = |t: &str| Subnet::parse(t).unwrap();
        assert!(net("10.0.0.0/8").overlaps(&net("10.88.0.0/16")));
        assert!(net("10.88.0.0/16").overlaps(&net("10.0.0.0/8")));
        assert!(!net("10.88.0.0/16").overlaps(&net("10.89.0.0/16")));
        assert!(!net("0.0.0.0/0").overlaps(&net("::/0")));
    }
}
