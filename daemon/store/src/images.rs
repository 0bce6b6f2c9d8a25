//! Image records and the references that containers hold on them.

use crate::Store;
use crate::error::StoreError;
use crate::table::{
    CONTAINERS, IMAGES, LAYERS, REFERENCES, Row, all_in, all_rows, decode, delete_row, encode, get_bytes,
    get_in, put_bytes,
};
use berth_core::Result;
use berth_image::{ImageIndex, ImageRecord, PulledImage};
use berth_snapshot::{Digest, LayerKey, LayerRecord};
use redb::WriteTransaction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a container keeps of its image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Reference {
    image: String,
    layers: Vec<LayerKey>,
}

/// The part of an image's record that says which layers it needs.
#[derive(Debug, Deserialize)]
struct Needs {
    layers: Vec<LayerKey>,
}

impl Store {
    /// Writes a new container's record and takes its reference to the image in the transaction that checks that the
    /// image is still there, so that no removal can come in between.
    ///
    /// # Errors
    /// [`StoreError::NoImage`], or the store cannot be written.
    pub fn create_container(
        &self,
        id: &str,
        image_id: &str,
        record: &impl Serialize,
    ) -> Result<(), StoreError> {
        let bytes = encode(id, record)?;
        self.db.write(|txn| {
            let needs = match get_in::<Needs>(txn, IMAGES, image_id)? {
                Some(Row::Whole(needs)) => needs,
                Some(Row::Damaged(_)) | None => return Err(StoreError::NoImage(image_id.to_owned())),
            };
            let reference = Reference { image: image_id.to_owned(), layers: needs.layers };
            put_bytes(txn, REFERENCES, id, &encode(id, &reference)?)?;
            put_bytes(txn, CONTAINERS, id, &bytes)
        })
    }

    /// Removes a container's record and its reference. Missing ones are a success.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete_container(&self, id: &str) -> Result<(), StoreError> {
        self.db.write(|txn| {
            delete_row(txn, CONTAINERS, id)?;
            delete_row(txn, REFERENCES, id)
        })
    }
}

impl ImageIndex for Store {
    fn commit_image(&self, image: &PulledImage) -> Result<()> {
        Ok(self.db.write(|txn| commit(txn, image))?)
    }

    fn image(&self, id: &Digest) -> Result<Option<ImageRecord>> {
        let bytes = self.db.read(|view| get_bytes(view, IMAGES, &id.to_string()))?;
        // A damaged image counts as missing: it is pulled again.
        Ok(bytes.and_then(|bytes| decode(&bytes).whole()))
    }

    fn images(&self) -> Result<Vec<ImageRecord>> {
        let rows = self.db.read(|view| all_rows::<ImageRecord>(view, IMAGES))?;
        Ok(rows.into_iter().filter_map(|(_, row)| row.whole()).collect())
    }

    fn remove_image(&self, id: &Digest) -> Result<bool> {
        let key = id.to_string();
        Ok(self.db.write(|txn| {
            let there = get_in::<Needs>(txn, IMAGES, &key)?.is_some();
            delete_row(txn, IMAGES, &key)?;
            Ok(there)
        })?)
    }
}

fn commit(txn: &WriteTransaction, image: &PulledImage) -> Result<(), StoreError> {
    image.layers.iter().try_for_each(|key| mark_synced(txn, key))?;
    if let Some(tag) = &image.repo_tag {
        take_tag(txn, tag, &image.id)?;
    }
    let key = image.id.to_string();
    let record = match get_in::<ImageRecord>(txn, IMAGES, &key)?.and_then(Row::whole) {
        Some(mut record) => {
            record.merge(image);
            // The layers of this pull are those known to be on disk.
            record.layers.clone_from(&image.layers);
            record
        }
        None => ImageRecord::from(image),
    };
    put_bytes(txn, IMAGES, &key, &encode(&key, &record)?)
}

fn mark_synced(txn: &WriteTransaction, key: &LayerKey) -> Result<(), StoreError> {
    let row = get_in::<LayerRecord>(txn, LAYERS, key.as_str())?;
    let Some(mut record) = row.and_then(Row::whole) else {
        return Err(StoreError::NoLayer(key.to_string()));
    };
    if record.synced {
        return Ok(());
    }
    record.synced = true;
    put_bytes(txn, LAYERS, key.as_str(), &encode(key.as_str(), &record)?)
}

/// A tag names one image: whoever had it loses it.
fn take_tag(txn: &WriteTransaction, tag: &String, owner: &Digest) -> Result<(), StoreError> {
    for (key, row) in all_in::<ImageRecord>(txn, IMAGES)? {
        let Some(mut record) = row.whole() else { continue };
        if record.id == *owner || !record.repo_tags.contains(tag) {
            continue;
        }
        record.repo_tags.retain(|held| held != tag);
        put_bytes(txn, IMAGES, &key, &encode(&key, &record)?)?;
    }
    Ok(())
}

/// Layers that images need. An image whose record cannot be read is not usable and protects nothing; containers
/// made from it hold their own references.
pub(crate) fn layers_of_images(txn: &WriteTransaction) -> Result<BTreeSet<LayerKey>, StoreError> {
    let rows = all_in::<Needs>(txn, IMAGES)?;
    Ok(rows.into_iter().filter_map(|(_, row)| row.whole()).flat_map(|needs| needs.layers).collect())
}

/// Layers that containers need. A reference that cannot be read stops the caller: a running container's files are
/// worth more than the space.
pub(crate) fn layers_of_references(txn: &WriteTransaction) -> Result<BTreeSet<LayerKey>, StoreError> {
    let mut needed = BTreeSet::new();
    for (key, row) in all_in::<Reference>(txn, REFERENCES)? {
        match row {
            Row::Whole(reference) => needed.extend(reference.layers),
            Row::Damaged(why) => {
                return Err(StoreError::Damaged { table: REFERENCES.0.to_owned(), key, why });
            }
        }
    }
    Ok(needed)
}
