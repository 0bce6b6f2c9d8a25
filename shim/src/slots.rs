//! The ids of a shim's containers: which are taken, and what was built under them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::CallError;

type Taken<T> = BTreeMap<String, Slot<T>>;

/// Ids and what stands under them.
#[derive(Debug)]
pub(crate) struct Slots<T>(Arc<Mutex<Taken<T>>>);

/// An id that is taken.
#[derive(Debug)]
enum Slot<T> {
    Creating,
    Ready(Arc<T>),
}

/// An id taken for something that is being built; given back unless it is filled.
#[derive(Debug)]
pub(crate) struct Claim<T> {
    slots: Slots<T>,
    id: String,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots(Arc::default())
    }
}

impl<T> Slots<T> {
    /// Takes an id, unless `closed` says that none is given any more.
    pub(crate) fn claim(&self, id: &str, closed: impl FnOnce() -> bool) -> Result<Claim<T>, CallError> {
        let mut taken = self.taken();
        if closed() {
            return Err(CallError::Ending);
        }
        if taken.contains_key(id) {
            return Err(CallError::Exists(id.to_owned()));
        }
        taken.insert(id.to_owned(), Slot::Creating);
        Ok(Claim { slots: Slots(self.0.clone()), id: id.to_owned() })
    }

    /// What was built under an id.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<T>, CallError> {
        match self.taken().get(id) {
            Some(Slot::Ready(built)) => Ok(built.clone()),
            Some(Slot::Creating) => {
                let needs = "wait for Create to answer";
                Err(CallError::State { id: id.to_owned(), state: "being created", needs })
            }
            None => Err(CallError::Unknown(id.to_owned())),
        }
    }

    /// All that was built, by id.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let ready = |slot: &Slot<T>| match slot {
            Slot::Ready(built) => Some(built.clone()),
            Slot::Creating => None,
        };
        self.taken().values().filter_map(ready).collect()
    }

    /// Whether something is being built.
    pub(crate) fn is_creating(&self) -> bool {
        self.taken().values().any(|slot| matches!(slot, Slot::Creating))
    }

    /// Does `then` if no id is taken, before any can be; whether it did.
    pub(crate) fn if_empty(&self, then: impl FnOnce()) -> bool {
        let taken = self.taken();
        if taken.is_empty() {
            then();
        }
        taken.is_empty()
    }

    /// Frees an id.
    pub(crate) fn forget(&self, id: &str) {
        self.taken().remove(id);
    }

    fn taken(&self) -> MutexGuard<'_, Taken<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Claim<T> {
    /// It is built: everybody may find it.
    pub(crate) fn fill(self, built: Arc<T>) {
        self.slots.taken().insert(self.id.clone(), Slot::Ready(built));
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        if matches!(taken.get(&self.id), Some(Slot::Creating)) {
            taken.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_one_until_it_is_given_back() {
        let slots: Slots<u8> = Slots::default();
        let claim = slots.claim("a", || false).unwrap();
        assert!(matches!(slots.claim("a", || false), Err(CallError::Exists(_))));
        assert!(matches!(slots.find("a"), Err(CallError::State { .. })));
        assert!(slots.is_creating() && slots.all().is_empty() && !slots.if_empty(|| ()));
        drop(claim);
        assert!(matches!(slots.find("a"), Err(CallError::Unknown(_))));
        slots.claim("a", || false).unwrap().fill(Arc::new(7));
        assert!(!slots.is_creating() && *slots.find("a").unwrap() == 7);
        slots.forget("a");
        assert!(slots.if_empty(|| ()));
        assert!(matches!(slots.claim("a", || true), Err(CallError::Ending)));
    }
}
