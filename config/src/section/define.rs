//! The macro that makes a section's struct, its defaults and the words of the template out of one text.

/// One key as the template shows it.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// Its name inside its table.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) doc: &'static str,
    /// Its default as TOML.
    pub(crate) default: String,
}

/// A table of the file.
pub(crate) trait Section {
    /// Plain keys in order.
    fn keys() -> Vec<Key>;
    /// Tables below this one in order: name, what it is for, visit.
    fn tables() -> Vec<Table>;
}

/// A table below another.
pub(crate) struct Table {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) doc: &'static str,
    /// Its plain keys.
    pub(crate) keys: fn() -> Vec<Key>,
    /// Its own tables.
    pub(crate) tables: fn() -> Vec<Table>,
}

/// A value as it is written in the file.
pub(crate) fn toml_text<T: serde::Serialize>(value: &T) -> String {
    toml::Value::try_from(value).map(|value| value.to_string()).unwrap_or_default()
}

macro_rules! section {
    (
        #[doc = $about:literal]
        $name:ident {
            $(#[doc = $doc:literal] $key:ident: $ty:ty = $default:expr;)*
        }
        $(with { $(#[doc = $table_doc:literal] $table:ident: $table_ty:ident,)* })?
    ) => {
        #[doc = $about]
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(#[doc = $doc] pub $key: $ty,)*
            $($(#[doc = $table_doc] pub $table: $table_ty,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* $($($table: $table_ty::default(),)*)? }
            }
        }

        impl crate::section::Section for $name {
            fn keys() -> Vec<crate::section::Key> {
                let it = Self::default();
                // The first blank of a doc comment is the comment's, not the text's.
                vec![$(crate::section::Key {
                    name: stringify!($key),
                    doc: $doc.trim_ascii(),
                    default: crate::section::define::toml_text(&it.$key),
                },)*]
            }

            fn tables() -> Vec<crate::section::define::Table> {
                vec![$($(crate::section::define::Table {
                    name: stringify!($table),
                    doc: $table_doc.trim_ascii(),
                    keys: <$table_ty as crate::section::Section>::keys,
                    tables: <$table_ty as crate::section::Section>::tables,
                },)*)?]
            }
        }
    };
}
pub(crate) use section;
