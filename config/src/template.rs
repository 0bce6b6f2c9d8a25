//! The commented file that `berthd config default` prints, made from the types.

use crate::section::{Config, Key, Section};
use std::fmt::Write;

/// Width at which comments are broken.
const WIDTH: usize = 110;

/// The whole file, every key commented out at its default.
#[must_use]
pub fn text() -> String {
    let mut out = String::new();
    comment(
        &mut out,
        "Berth's configuration. Every key stands here at its default; uncomment what you change.",
    );
    out.push('\n');
    keys(&mut out, &Config::keys());
    tables(&mut out, "", &Config::tables());
    out
}

fn tables(out: &mut String, above: &str, below: &[crate::section::Table]) {
    for table in below {
        let name = format!("{above}{}", table.name);
        out.push('\n');
        comment(out, table.doc);
        let _ = writeln!(out, "[{name}]");
        keys(out, &(table.keys)());
        tables(out, &format!("{name}."), &(table.tables)());
    }
}

fn keys(out: &mut String, keys: &[Key]) {
    for key in keys {
        comment(out, key.doc);
        let _ = writeln!(out, "# {} = {}", key.name, key.default);
    }
}

fn comment(out: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}

/// Every key's full name in order, `network.builtin.bridge`.
#[must_use]
pub fn key_names() -> Vec<String> {
    let mut names: Vec<String> = Config::keys().iter().map(|key| key.name.to_owned()).collect();
    below(&mut names, "", &Config::tables());
    names
}

fn below(names: &mut Vec<String>, above: &str, tables: &[crate::section::Table]) {
    for table in tables {
        let name = format!("{above}{}", table.name);
        names.extend((table.keys)().iter().map(|key| format!("{name}.{}", key.name)));
        below(names, &format!("{name}."), &(table.tables)());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uncommented() -> String {
        let is_key = |line: &&str| line.starts_with("# ") && line.contains(" = ");
        let line = |line: &str| match is_key(&line) {
            true => line.trim_start_matches("# ").to_owned(),
            false => line.to_owned(),
        };
        text().lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_template_uncommented_is_the_default() {
        let read: Config = toml::from_str(&uncommented()).unwrap();
        assert_eq!(read, Config::default());
        let as_it_is: Config = toml::from_str(&text()).unwrap();
        assert_eq!(as_it_is, Config::default());
    }

    #[test]
    fn the_template_holds_every_key_that_serde_knows() {
        let table = toml::Table::try_from(Config::default()).unwrap();
        let mut known = Vec::new();
        flatten("", &table, &mut known);
        let mut printed = key_names();
        known.sort();
        printed.sort();
        assert_eq!(known, printed);
    }

    fn flatten(above: &str, table: &toml::Table, out: &mut Vec<String>) {
        for (key, value) in table {
            match value {
                toml::Value::Table(below) => flatten(&format!("{above}{key}."), below, out),
                _ => out.push(format!("{above}{key}")),
            }
        }
    }

    #[test]
    fn lines_are_not_wider_than_a_page() {
        assert!(text().lines().all(|line| line.len() <= WIDTH), "{}", text());
    }
}
