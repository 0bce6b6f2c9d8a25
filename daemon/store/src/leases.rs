//! Address leases of the built-in network: what berth-network asks of whoever keeps them.
//!
//! The key is `pool|address`, the value the owner; finding an owner's addresses walks the table, which holds one
//! row a pod.

use crate::Store;
use crate::error::StoreError;
use crate::table::{LEASES, Row, all_in, all_rows, delete_row, encode, put_bytes};
use berth_network::leases::Choose;
use berth_network::{Lease, LeaseError, Leases};
use redb::WriteTransaction;
use std::collections::BTreeSet;
use std::net::IpAddr;

impl Leases for Store {
    fn acquire(
        &self,
        pool: &str,
        owner: &str,
        choose: &mut Choose<'_>,
    ) -> Result<Option<IpAddr>, LeaseError> {
        self.db
            .write(|txn| acquire(txn, pool, owner, choose))
            .map_err(|source| failed("acquire", owner, source))
    }

    fn release(&self, owner: &str) -> Result<(), LeaseError> {
        let release = |txn: &WriteTransaction| {
            for (key, row) in all_in::<String>(txn, LEASES)? {
                // A lease that cannot be read belongs to nobody: dropping it loses no more than the record did.
                if row == Row::Whole(owner.to_owned()) || matches!(row, Row::Damaged(_)) {
                    delete_row(txn, LEASES, &key)?;
                }
            }
            Ok(())
        };
        self.db.write(release).map_err(|source| failed("release", owner, source))
    }

    fn held(&self, owner: &str) -> Result<Vec<Lease>, LeaseError> {
        let all =
            self.db.read(|view| all_rows(view, LEASES)).map_err(|source| failed("read", owner, source))?;
        Ok(leases(all).into_iter().filter(|lease| lease.owner == owner).collect())
    }

    fn list(&self) -> Result<Vec<Lease>, LeaseError> {
        let all =
            self.db.read(|view| all_rows(view, LEASES)).map_err(|source| failed("read", "*", source))?;
        Ok(leases(all))
    }
}

fn failed(act: &'static str, owner: &str, source: StoreError) -> LeaseError {
    LeaseError { act, owner: owner.to_owned(), source: Box::new(source) }
}

fn leases(rows: Vec<(String, Row<String>)>) -> Vec<Lease> {
    let lease = |(key, row): (String, Row<String>)| {
        let (pool, address) = key.split_once('|')?;
        Some(Lease { pool: pool.to_owned(), address: address.parse().ok()?, owner: row.whole()? })
    };
    let mut leases: Vec<Lease> = rows.into_iter().filter_map(lease).collect();
    leases.sort();
    leases
}

fn acquire(
    txn: &WriteTransaction,
    pool: &str,
    owner: &str,
    choose: &mut Choose<'_>,
) -> Result<Option<IpAddr>, StoreError> {
    let of_pool: Vec<Lease> =
        leases(all_in(txn, LEASES)?).into_iter().filter(|lease| lease.pool == pool).collect();
    if let Some(lease) = of_pool.iter().find(|lease| lease.owner == owner) {
        return Ok(Some(lease.address));
    }
    let busy: BTreeSet<IpAddr> = of_pool.iter().map(|lease| lease.address).collect();
    let Some(address) = choose(&busy) else { return Ok(None) };
    let key = format!("{pool}|{address}");
    put_bytes(txn, LEASES, &key, &encode(&key, &owner)?)?;
    Ok(Some(address))
}
