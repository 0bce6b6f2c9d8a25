//! The two shapes that the specification is made of: objects with known members, and words of a list.

/// Objects: `field: type = "member" [copy] [default]`. `copy` gives the field by value instead of by reference; `default`
/// takes the type's default where the member is missing.
macro_rules! record {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty = $key:literal $($how:ident)*,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = concat!("`", $key, "`.")] pub $field: $type,)*
        }

        impl $name {
            $(record!(@get $field, $type, $key, $($how)*);)*
        }

        impl $crate::oci::json::Json for $name {
            fn read(value: serde_json::Value) -> Result<Self, $crate::oci::json::Wrong> {
                let mut members = $crate::oci::json::members(value, concat!("an object: ", stringify!($name)))?;
                Ok(Self { $($field: record!(@take members, $key, $($how)*)?,)* })
            }

            fn write(&self) -> serde_json::Value {
                let mut members = serde_json::Map::new();
                $($crate::oci::json::put(&mut members, $key, &self.$field);)*
                serde_json::Value::Object(members)
            }
        }

        $crate::oci::record::serde!($name);
    )*};
    (@get $field:ident, $type:ty, $key:literal, copy $($how:ident)*) => {
        #[doc = concat!("`", $key, "`.")]
        pub const fn $field(&self) -> $type {
            self.$field
        }
    };
    (@get $field:ident, $type:ty, $key:literal, $($how:ident)*) => {
        #[doc = concat!("`", $key, "`.")]
        pub const fn $field(&self) -> &$type {
            &self.$field
        }
    };
    (@take $members:ident, $key:literal, copy $($how:ident)*) => { record!(@take $members, $key, $($how)*) };
    (@take $members:ident, $key:literal, default) => {
        $crate::oci::json::take_or_default(&mut $members, $key)
    };
    (@take $members:ident, $key:literal,) => { $crate::oci::json::take(&mut $members, $key) };
}

/// Words.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($(#[$mark:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = concat!("`", $word, "`.")] $(#[$mark])* $variant,)*
        }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant),*];
            const WORDS: &[&str] = &[$($word),*];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                Self::WORDS[self as usize]
            }

            fn from_word(word: &str) -> Option<Self> {
                $crate::oci::record::position(Self::WORDS, word).and_then(|at| Self::ALL.get(at).copied())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )*};
}

/// Words that JSON has as they are.
macro_rules! json_words {
    ($($name:ident),* $(,)?) => {$(
        impl $crate::oci::json::Json for $name {
            fn read(value: serde_json::Value) -> Result<Self, $crate::oci::json::Wrong> {
                let word = value.as_str().and_then(Self::from_word);
                word.ok_or_else(|| $crate::oci::json::Wrong::word(&value, Self::WORDS))
            }

            fn write(&self) -> serde_json::Value {
                serde_json::Value::String(self.as_str().to_owned())
            }
        }
    )*};
}

/// The bridge to serde, for what holds such a type and for callers with a text.
macro_rules! serde {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::oci::json::Json::write(self).serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = <serde_json::Value as serde::Deserialize>::deserialize(deserializer)?;
                $crate::oci::json::Json::read(value).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Which of the words it is.
#[inline(never)]
pub(super) fn position(words: &[&str], word: &str) -> Option<usize> {
    words.iter().position(|known| *known == word)
}

pub(super) use {json_words, record, serde, words};
