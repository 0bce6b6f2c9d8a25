//! From a tree of values to typed ones and back. Nothing here is generic over a reader or a writer.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// A value that is not what its place takes.
#[derive(Debug)]
pub(super) struct Wrong {
    place: String,
    reason: String,
}

impl Wrong {
    pub(super) const fn new(reason: String) -> Self {
        Self { place: String::new(), reason }
    }

    /// What is there instead of `expected`.
    #[cold]
    pub(super) fn kind(found: &Value, expected: &str) -> Self {
        let found = match found {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => format!("boolean `{value}`"),
            Value::Number(number) if number.is_f64() => format!("floating point `{number}`"),
            Value::Number(number) => format!("integer `{number}`"),
            Value::String(text) => format!("string {text:?}"),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        };
        Self::new(format!("invalid value: {found}, expected {expected}"))
    }

    /// A word that is none of the known ones.
    #[cold]
    pub(super) fn word(found: &Value, known: &[&str]) -> Self {
        Self::kind(found, &format!("one of {}", known.join(", ")))
    }

    /// Inside the member `key`.
    #[cold]
    fn within(mut self, key: &str) -> Self {
        let dot = if self.place.is_empty() || self.place.starts_with('[') { "" } else { "." };
        self.place = format!("{key}{dot}{}", self.place);
        self
    }

    /// Inside the entry `index`.
    #[cold]
    fn at(mut self, index: usize) -> Self {
        let dot = if self.place.is_empty() || self.place.starts_with('[') { "" } else { "." };
        self.place = format!("[{index}]{dot}{}", self.place);
        self
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.reason),
            place => write!(f, "{place}: {}", self.reason),
        }
    }
}

/// A type with a form in JSON.
pub(super) trait Json: Sized {
    fn read(value: Value) -> Result<Self, Wrong>;

    fn write(&self) -> Value;

    /// What a member that is not there stands for.
    fn absent() -> Option<Self> {
        None
    }

    /// Whether the member is not written at all.
    fn is_absent(&self) -> bool {
        false
    }
}

/// The members of an object.
pub(super) fn members(value: Value, expected: &str) -> Result<Map<String, Value>, Wrong> {
    match value {
        Value::Object(members) => Ok(members),
        other => Err(Wrong::kind(&other, expected)),
    }
}

/// A member that must be there, unless its type says what its absence means.
pub(super) fn take<T: Json>(members: &mut Map<String, Value>, key: &str) -> Result<T, Wrong> {
    match find(members, key) {
        Some(value) => T::read(value).map_err(|wrong| wrong.within(key)),
        None => T::absent().ok_or_else(|| missing(key)),
    }
}

#[inline(never)]
fn find(members: &mut Map<String, Value>, key: &str) -> Option<Value> {
    members.get_mut(key).map(Value::take)
}

#[cold]
fn missing(key: &str) -> Wrong {
    Wrong::new(format!("missing field `{key}`"))
}

/// A member whose absence means the default.
pub(super) fn take_or_default<T: Json + Default>(
    members: &mut Map<String, Value>,
    key: &str,
) -> Result<T, Wrong> {
    find(members, key)
        .map_or_else(|| Ok(T::default()), |value| T::read(value).map_err(|wrong| wrong.within(key)))
}

#[inline(never)]
fn insert(members: &mut Map<String, Value>, key: &str, value: Value) {
    members.insert(key.to_owned(), value);
}

/// Writes a member.
pub(super) fn put<T: Json>(members: &mut Map<String, Value>, key: &str, value: &T) {
    if !value.is_absent() {
        insert(members, key, value.write());
    }
}

impl Json for bool {
    fn read(value: Value) -> Result<Self, Wrong> {
        value.as_bool().ok_or_else(|| Wrong::kind(&value, "a boolean"))
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }
}

/// Numbers of each width, through the widest.
macro_rules! numbers {
    ($($type:ident by $as:ident),*) => {$(
        impl Json for $type {
            fn read(value: Value) -> Result<Self, Wrong> {
                let number = value.$as().and_then(|number| Self::try_from(number).ok());
                number.ok_or_else(|| Wrong::kind(&value, stringify!($type)))
            }

            fn write(&self) -> Value {
                Value::from(*self)
            }
        }
    )*};
}

numbers!(u16 by as_u64, u32 by as_u64, u64 by as_u64, usize by as_u64, i32 by as_i64, i64 by as_i64);

impl Json for String {
    fn read(value: Value) -> Result<Self, Wrong> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(Wrong::kind(&other, "a string")),
        }
    }

    fn write(&self) -> Value {
        Value::String(self.clone())
    }
}

impl Json for PathBuf {
    fn read(value: Value) -> Result<Self, Wrong> {
        String::read(value).map(Self::from)
    }

    fn write(&self) -> Value {
        Value::String(self.to_string_lossy().into_owned())
    }
}

impl<T: Json> Json for Option<T> {
    fn read(value: Value) -> Result<Self, Wrong> {
        if value.is_null() { Ok(None) } else { T::read(value).map(Some) }
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::write)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// The entries of a list.
fn entries(value: Value) -> Result<Vec<Value>, Wrong> {
    match value {
        Value::Array(entries) => Ok(entries),
        other => Err(Wrong::kind(&other, "a list")),
    }
}

impl<T: Json> Json for Vec<T> {
    fn read(value: Value) -> Result<Self, Wrong> {
        let all = entries(value)?.into_iter().enumerate();
        all.map(|(index, entry)| T::read(entry).map_err(|wrong| wrong.at(index))).collect()
    }

    fn write(&self) -> Value {
        Value::Array(self.iter().map(T::write).collect())
    }
}

impl<T: Json + Ord> Json for BTreeSet<T> {
    fn read(value: Value) -> Result<Self, Wrong> {
        let mut all = Self::new();
        Vec::read(value)?.into_iter().for_each(|entry| {
            all.insert(entry);
        });
        Ok(all)
    }

    fn write(&self) -> Value {
        Value::Array(self.iter().map(T::write).collect())
    }
}

impl<T: Json> Json for BTreeMap<String, T> {
    fn read(value: Value) -> Result<Self, Wrong> {
        let mut all = Self::new();
        for (key, value) in members(value, "an object")? {
            let value = T::read(value).map_err(|wrong| wrong.within(&key))?;
            all.insert(key, value);
        }
        Ok(all)
    }

    fn write(&self) -> Value {
        let mut members = Map::new();
        self.iter().for_each(|(key, value)| insert(&mut members, key, value.write()));
        Value::Object(members)
    }
}
