//! Flags as runc's: `--name value`, `--name=value`, one dash or two, before the first word that is no flag.

use std::ffi::OsString;

use super::OciError;

/// A flag that a command knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    long: &'static str,
    short: &'static str,
    takes_value: bool,
}

impl Flag {
    /// A flag that is there or not.
    pub(crate) const fn switch(long: &'static str, short: &'static str) -> Self {
        Self { long, short, takes_value: false }
    }

    /// A flag with a value; may be repeated.
    pub(crate) const fn value(long: &'static str, short: &'static str) -> Self {
        Self { long, short, takes_value: true }
    }

    /// Its long name.
    pub(crate) fn name(&self) -> &'static str {
        self.long
    }

    /// As it is written on a command line.
    pub(crate) fn spelling(&self) -> String {
        let value = if self.takes_value { " VALUE" } else { "" };
        let short = if self.short.is_empty() { String::new() } else { format!(", -{}", self.short) };
        format!("--{}{short}{value}", self.long)
    }
}

/// A command line taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    given: Vec<(&'static str, String)>,
    /// The words after the flags.
    pub(crate) rest: Vec<String>,
}

impl Parsed {
    /// Whether a switch is set.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value != "false")
    }

    /// The last value of a flag.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
    }

    /// Every value of a flag.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        self.given.iter().filter(|(n, _)| *n == name).map(|(_, v)| v.clone()).collect()
    }

    /// A number.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, OciError> {
        let parse = |text: &str| {
            text.parse().map_err(|_| OciError::Words(format!("--{name}: {text:?} is no number")))
        };
        self.value(name).map(parse).transpose()
    }

    /// The container's id, the only word.
    pub(crate) fn sole_id(&self) -> Result<&str, OciError> {
        self.at_most(1)?.id()
    }

    /// Refuses more words than so many.
    pub(crate) fn at_most(&self, words: usize) -> Result<&Self, OciError> {
        match self.rest.get(words) {
            Some(word) => Err(OciError::Words(format!("{word:?}: one word too many"))),
            None => Ok(self),
        }
    }

    /// The container's id, the first word.
    pub(crate) fn id(&self) -> Result<&str, OciError> {
        self.rest
            .first()
            .map(String::as_str)
            .ok_or_else(|| OciError::Words("the container's id is missing".into()))
    }
}

/// Takes `args` apart.
pub(crate) fn parse(flags: &[Flag], args: Vec<OsString>) -> Result<Parsed, OciError> {
    let mut parsed = Parsed::default();
    let mut args = args.into_iter().map(|arg| {
        arg.into_string()
            .map_err(|arg| OciError::Words(format!("argument {} is not UTF-8", arg.to_string_lossy())))
    });
    while let Some(arg) = args.next() {
        let arg = arg?;
        let Some(name) = arg.strip_prefix('-').filter(|name| !name.is_empty()) else {
            parsed.rest.push(arg);
            break;
        };
        let name = name.strip_prefix('-').unwrap_or(name);
        if name.is_empty() {
            break;
        }
        let (name, inline) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let known = |f: &&Flag| f.long == name || (!f.short.is_empty() && f.short == name);
        let flag = flags.iter().find(known).ok_or_else(|| match name {
            "help" | "h" => OciError::Help(flags.to_vec()),
            _ => OciError::Words(format!("no such flag: {arg}")),
        })?;
        let value = match (flag.takes_value, inline) {
            (true, Some(value)) => value,
            (false, Some(value)) => truth(&value)
                .ok_or_else(|| OciError::Words(format!("{arg}: neither true nor false")))?
                .to_owned(),
            (false, None) => "true".to_owned(),
            (true, None) => args.next().ok_or_else(|| OciError::Words(format!("{arg} needs a value")))??,
        };
        parsed.given.push((flag.long, value));
    }
    for arg in args {
        parsed.rest.push(arg?);
    }
    Ok(parsed)
}

/// What callers in Go write for a switch.
fn truth(value: &str) -> Option<&'static str> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some("true"),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some("false"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] =
        &[Flag::value("bundle", "b"), Flag::switch("detach", "d"), Flag::value("env", "e")];

    fn of(words: &[&str]) -> Result<Parsed, OciError> {
        parse(FLAGS, words.iter().map(OsString::from).collect())
    }

    #[test]
    fn every_spelling() {
        for words in [
            ["--bundle", "x", "id"].as_slice(),
            &["-b", "x", "id"],
            &["--bundle=x", "id"],
            &["-bundle", "x", "id"],
        ] {
            let parsed = of(words).expect("parses");
            assert_eq!((parsed.value("bundle"), parsed.id().ok()), (Some("x"), Some("id")), "{words:?}");
        }
    }

    #[test]
    fn flags_end_at_the_first_word() {
        let parsed = of(&["-d", "-e", "A=1", "-e", "B=2", "id", "ls", "-d"]).expect("parses");
        assert!(parsed.is_set("detach"));
        assert_eq!(parsed.values("env"), ["A=1", "B=2"]);
        assert_eq!(parsed.rest, ["id", "ls", "-d"]);
        assert!(!of(&["--detach=0", "id"]).expect("parses").is_set("detach"));
    }

    #[test]
    fn unknown_and_unfinished_ones_are_refused() {
        assert!(of(&["--nope"]).is_err());
        assert!(matches!(of(&["-d", "--help"]), Err(OciError::Help(flags)) if flags.len() == FLAGS.len()));
        assert_eq!(of(&["id", "--help"]).expect("parses").rest, ["id", "--help"]);
        assert!(of(&["--bundle"]).is_err());
        assert!(of(&["--detach=maybe"]).is_err());
    }
}
