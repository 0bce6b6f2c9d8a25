//! Layer records: what berth-snapshot asks of whoever keeps them.

use crate::Store;
use crate::error::StoreError;
use crate::images::{layers_of_images, layers_of_references};
use crate::table::{LAYERS, Row, all_in, all_rows, decode, delete_row, encode, get_bytes, put_bytes};
use berth_core::Result;
use berth_snapshot::{LayerIndex, LayerKey, LayerRecord};
use redb::WriteTransaction;
use std::collections::BTreeSet;

impl LayerIndex for Store {
    fn layer(&self, key: &LayerKey) -> Result<Option<LayerRecord>> {
        let bytes = self.db.read(|view| get_bytes(view, LAYERS, key.as_str()))?;
        // A damaged record counts as missing: the layer is then applied again.
        Ok(bytes.and_then(|bytes| decode(&bytes).whole()))
    }

    fn put_layer(&self, record: &LayerRecord) -> Result<()> {
        let bytes = encode(record.key.as_str(), record)?;
        Ok(self.db.write(|txn| put_bytes(txn, LAYERS, record.key.as_str(), &bytes))?)
    }

    fn layers(&self) -> Result<Vec<LayerRecord>> {
        let rows = self.db.read(|view| all_rows::<LayerRecord>(view, LAYERS))?;
        Ok(rows.into_iter().filter_map(|(_, row)| row.whole()).collect())
    }

    fn remove_layers(&self, keys: &[LayerKey]) -> Result<()> {
        Ok(self.db.write(|txn| keys.iter().try_for_each(|key| delete_row(txn, LAYERS, key.as_str())))?)
    }

    fn remove_unreferenced_layers(&self, keep: &BTreeSet<LayerKey>) -> Result<Vec<LayerKey>> {
        Ok(self.db.write(|txn| remove_unreferenced(txn, keep))?)
    }
}

fn remove_unreferenced(
    txn: &WriteTransaction,
    keep: &BTreeSet<LayerKey>,
) -> std::result::Result<Vec<LayerKey>, StoreError> {
    let mut needed = layers_of_images(txn)?;
    needed.extend(layers_of_references(txn)?);
    let mut removed = Vec::new();
    for (key, row) in all_in::<LayerRecord>(txn, LAYERS)? {
        let parsed = match row {
            Row::Whole(record) => Some(record.key),
            Row::Damaged(_) => LayerKey::parse(&key).ok(),
        };
        let in_use = |key: &LayerKey| needed.contains(key) || keep.contains(key);
        if parsed.as_ref().is_some_and(in_use) {
            continue;
        }
        delete_row(txn, LAYERS, &key)?;
        removed.extend(parsed);
    }
    Ok(removed)
}
