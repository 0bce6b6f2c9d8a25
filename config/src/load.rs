//! From a file and flags to a checked configuration.

use crate::nearest::nearest;
use crate::section::{Config, LogFormat, LogLevel};
use crate::template::key_names;
use crate::validate::{ValidateError, validate};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Flags that are stronger than the file.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "each is the key of the same name")]
pub struct Overrides {
    pub root: Option<PathBuf>,
    pub state: Option<PathBuf>,
    pub socket: Option<PathBuf>,
    pub log_level: Option<LogLevel>,
    pub log_format: Option<LogFormat>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no TOML, or a value has the wrong type.
    #[error("{path}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A key that is not known.
    #[error("{path}:{line}: unknown key `{key}`{}", hint(.nearest))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line of the key, from 1.
        line: usize,
        /// The key's full name.
        key: String,
        /// The known key closest to it.
        nearest: Option<String>,
    },
    /// The values do not fit.
    #[error(transparent)]
    Validate(#[from] ValidateError),
}

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!(": did you mean `{name}`?"),
        None => ": `berthd config default` prints all keys".to_owned(),
    }
}

/// Reads `file` (or the default one if it exists), puts `flags` over it and checks the outcome.
///
/// # Errors
/// A named file that is missing, anything unreadable, an unknown key, a value that does not fit.
pub fn load(file: Option<&Path>, flags: &Overrides) -> Result<Config, LoadError> {
    let mut config = match file {
        Some(path) => parse(path, &read(path)?)?,
        None => match read(Path::new(crate::DEFAULT_FILE)) {
            Ok(text) => parse(Path::new(crate::DEFAULT_FILE), &text)?,
            Err(LoadError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Config::default()
            }
            Err(error) => return Err(error),
        },
    };
    apply(&mut config, flags);
    validate(&config)?;
    Ok(config)
}

fn read(path: &Path) -> Result<String, LoadError> {
    std::fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })
}

fn apply(config: &mut Config, flags: &Overrides) {
    let take = |key: &mut PathBuf, flag: &Option<PathBuf>| {
        if let Some(value) = flag {
            key.clone_from(value);
        }
    };
    take(&mut config.root, &flags.root);
    take(&mut config.state, &flags.state);
    take(&mut config.grpc.socket, &flags.socket);
    config.log.level = flags.log_level.unwrap_or(config.log.level);
    config.log.format = flags.log_format.unwrap_or(config.log.format);
}

/// Reads the text of a file; `path` is only for errors.
///
/// # Errors
/// No TOML, an unknown key, a value of the wrong type.
pub fn parse(path: &Path, text: &str) -> Result<Config, LoadError> {
    let wrong = |source| LoadError::Parse { path: path.to_owned(), source: Box::new(source) };
    let table = DeTable::parse(text).map_err(wrong)?;
    let known = key_names();
    if let Some((at, key)) = unknown("", table.get_ref(), &known) {
        let line = text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        let nearest = suggestion(&key, &known);
        return Err(LoadError::UnknownKey { path: path.to_owned(), line, key, nearest });
    }
    toml::from_str(text).map_err(wrong)
}

/// The first key (by place in the text) that is neither known nor the beginning of a known one.
fn unknown(above: &str, table: &DeTable<'_>, known: &[String]) -> Option<(usize, String)> {
    let mut found: Option<(usize, String)> = None;
    for (key, value) in table {
        let name = format!("{above}{}", key.get_ref());
        let below = format!("{name}.");
        let here = if known.contains(&name) {
            None
        } else if known.iter().any(|known| known.starts_with(&below)) {
            match value.get_ref() {
                DeValue::Table(table) => unknown(&below, table, known),
                // Not a table where one is meant: serde says so with its own words.
                _ => None,
            }
        } else {
            Some((key.span().start, name))
        };
        found = found.into_iter().chain(here).min();
    }
    found
}

/// The known key most like `key`: by full name, or by last part where a key stands in the wrong table.
fn suggestion(key: &str, known: &[String]) -> Option<String> {
    let (table, last) = key.rsplit_once('.').unwrap_or(("", key));
    let elsewhere = known.iter().find(|name| name.rsplit('.').next() == Some(last));
    let mut names = known.to_vec();
    for name in known {
        let mut parts = name.split('.');
        parts.next_back();
        let table = parts.collect::<Vec<_>>().join(".");
        if !table.is_empty() && !names.contains(&table) {
            names.push(table);
        }
    }
    let found = elsewhere.map(String::as_str).or_else(|| nearest(key, &names))?;
    // Within its own table the last part is all that must be changed.
    let short = found.strip_prefix(table).and_then(|rest| rest.strip_prefix('.'));
    Some(short.filter(|rest| !rest.contains('.')).unwrap_or(found).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(Path::new("b.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_named_with_line_and_nearest_name() {
        assert_eq!(
            error("root = \"/x\"\n[network.builtin]\nbridge = \"b\"\nmasqerade = true\n"),
            "b.toml:4: unknown key `network.builtin.masqerade`: did you mean `masquerade`?"
        );
        assert_eq!(error("\n\nrot = \"/x\"\n"), "b.toml:3: unknown key `rot`: did you mean `root`?");
        assert_eq!(
            error("[netwrok]\nmode = \"cni\"\n"),
            "b.toml:1: unknown key `netwrok`: did you mean `network`?"
        );
        assert_eq!(
            error("[grpc]\nbridge = \"x\""),
            "b.toml:2: unknown key `grpc.bridge`: did you mean `network.builtin.bridge`?"
        );
        assert!(error("zzzzzzzzz = 1").contains("berthd config default"));
    }

    #[test]
    fn the_first_of_several_unknown_keys_is_named() {
        assert!(error("[zzz]\nq = 1\n[log]\nlevle = \"info\"\n").starts_with("b.toml:1: unknown key `zzz`"));
    }

    #[test]
    fn wrong_types_and_words_are_named_with_their_line() {
        assert!(error("[log]\nlevel = \"loud\"").contains("line 2"), "{}", error("[log]\nlevel = \"loud\""));
        assert!(error("grpc = 3").contains("grpc"));
        assert!(error("root = [").starts_with("b.toml: "));
    }

    #[test]
    fn flags_are_stronger_than_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.toml");
        std::fs::write(&file, "root = \"/file\"\nstate = \"/s\"\n[log]\nlevel = \"warn\"\n").unwrap();
        let flags = Overrides { root: Some("/flag".into()), ..Overrides::default() };
        let config = load(Some(&file), &flags).unwrap();
        assert_eq!((config.root.as_path(), config.log.level), (Path::new("/flag"), LogLevel::Warn));
        assert_eq!(config.socket(), Path::new("/s/berthd.sock"));
        assert!(matches!(load(Some(Path::new("/none")), &flags), Err(LoadError::Read { .. })));
    }
}
