//! Addresses of the built-in network and who holds them: the trait that the store implements.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Picks a free address when given those that are taken; none when the pool is full.
pub type Choose<'a> = dyn FnMut(&BTreeSet<IpAddr>) -> Option<IpAddr> + 'a;

/// Where leases are kept. All calls block and are durable when they return.
///
/// A pool is the name of a subnet in CIDR form; an owner is a sandbox id. An owner holds at most one address
/// per pool.
pub trait Leases: Send + Sync {
    /// The owner's address in the pool: the one it already holds, else one that `choose` picks among the free
    /// ones, all in one transaction. None when `choose` finds none.
    fn acquire(&self, pool: &str, owner: &str, choose: &mut Choose<'_>)
    -> Result<Option<IpAddr>, LeaseError>;

    /// Gives back all addresses of an owner, in every pool. An owner without any is a success.
    fn release(&self, owner: &str) -> Result<(), LeaseError>;

    /// The addresses an owner holds, sorted by pool.
    fn held(&self, owner: &str) -> Result<Vec<Lease>, LeaseError>;

    /// Every lease, sorted by pool and address.
    fn list(&self) -> Result<Vec<Lease>, LeaseError>;
}

/// One leased address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    /// The subnet, in CIDR form.
    pub pool: String,
    /// The address.
    pub address: IpAddr,
    /// The sandbox that holds it.
    pub owner: String,
}

/// The keeper of leases failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} the address lease of sandbox {owner}: {source}")]
pub struct LeaseError {
    /// What was tried: `acquire`, `release`, `read`.
    pub act: &'static str,
    /// The sandbox, or `*`.
    pub owner: String,
    /// The store's own error.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Leases in memory: for tests, and for tools that need no store.
#[derive(Debug, Default)]
pub struct MemoryLeases {
    taken: Mutex<BTreeMap<(String, IpAddr), String>>,
}

impl MemoryLeases {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<(String, IpAddr), String>> {
        // The map is whole after every statement, so a panic elsewhere has not broken it.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leases for MemoryLeases {
    fn acquire(
        &self,
        pool: &str,
        owner: &str,
        choose: &mut Choose<'_>,
    ) -> Result<Option<IpAddr>, LeaseError> {
        let mut taken = self.taken();
        let of_pool: Vec<_> = taken.iter().filter(|((p, _), _)| p == pool).collect();
        if let Some(((_, ip), _)) = of_pool.iter().find(|(_, o)| *o == owner) {
            return Ok(Some(*ip));
        }
        let busy: BTreeSet<IpAddr> = of_pool.iter().map(|((_, ip), _)| *ip).collect();
        let Some(ip) = choose(&busy) else { return Ok(None) };
        taken.insert((pool.to_owned(), ip), owner.to_owned());
        Ok(Some(ip))
    }

    fn release(&self, owner: &str) -> Result<(), LeaseError> {
        self.taken().retain(|_, o| o != owner);
        Ok(())
    }

    fn held(&self, owner: &str) -> Result<Vec<Lease>, LeaseError> {
        Ok(self.list()?.into_iter().filter(|l| l.owner == owner).collect())
    }

    fn list(&self) -> Result<Vec<Lease>, LeaseError> {
        let lease = |((pool, address), owner): (&(String, IpAddr), &String)| Lease {
            pool: pool.clone(),
            address: *address,
            owner: owner.clone(),
        };
        Ok(self.taken().iter().map(lease).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_keeps_its_address_and_a_full_pool_says_none() {
        let leases = MemoryLeases::default();
        let one: IpAddr = "10.0.0.2".parse().unwrap();
        let got = leases.acquire("10.0.0.0/24", "a", &mut |_| Some(one)).unwrap();
        assert_eq!(got, Some(one));
        let again = leases.acquire("10.0.0.0/24", "a", &mut |_| panic!("must not choose again")).unwrap();
        assert_eq!(again, Some(one));
        let full = leases
            .acquire("10.0.0.0/24", "b", &mut |busy| {
                assert!(busy.contains(&one));
                None
            })
            .unwrap();
        assert_eq!(full, None);
        leases.release("a").unwrap();
        leases.release("a").unwrap();
        assert!(leases.list().unwrap().is_empty());
    }
}
