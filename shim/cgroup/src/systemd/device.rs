//! Device rules as unit properties.
//!
//! systemd knows a list of allowed devices only. It must not be stricter than our own filter, and not absent either:
//! on v1 a reload would else open every device again.

use super::properties::Property;
use super::wire::Value;
use crate::device::{Kind, MKNOD, READ, Rule, WRITE};

/// The properties for a list of rules.
pub(super) fn properties(rules: &[Rule]) -> Vec<Property> {
    properties_with(rules, &std::fs::read_to_string("/proc/devices").unwrap_or_default())
}

fn properties_with(rules: &[Rule], classes: &str) -> Vec<Property> {
    let decides_all = rules.iter().rev().find(|rule| rule.kind == Kind::Any);
    if decides_all.is_some_and(|rule| rule.allow) {
        // Everything: what is denied again after it is our filter's part.
        return vec![("DevicePolicy", text("auto")), ("DeviceAllow", Value::Pairs(Vec::new()))];
    }
    let start = rules.iter().rposition(|rule| rule.kind == Kind::Any).map_or(0, |at| at + 1);
    // Of two entries of one name systemd keeps the last, so each name comes once with all that any rule allows.
    let mut named: Vec<(String, u8)> = Vec::new();
    for rule in rules[start..].iter().filter(|rule| rule.allow) {
        let Some(name) = node(rule, classes) else { continue };
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, allowed)) => *allowed |= rule.access,
            None => named.push((name, rule.access)),
        }
    }
    let pairs = named.into_iter().map(|(name, allowed)| (name, access(allowed))).collect();
    // An empty list first: what an update no longer allows would else stay in systemd's.
    let none = ("DeviceAllow", Value::Pairs(Vec::new()));
    vec![("DevicePolicy", text("strict")), none, ("DeviceAllow", Value::Pairs(pairs))]
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// A device as systemd names it; it cannot name a minor number of every major, nor a major that has no class.
fn node(rule: &Rule, classes: &str) -> Option<String> {
    let sort = match rule.kind {
        Kind::Any => return None,
        Kind::Block => "block",
        Kind::Char => "char",
    };
    match (rule.major, rule.minor) {
        (None, None) => Some(format!("{sort}-*")),
        (Some(major), Some(minor)) => Some(format!("/dev/{sort}/{major}:{minor}")),
        (Some(major), None) => Some(format!("{sort}-{}", class(rule.kind, major, classes)?)),
        (None, Some(_)) => None,
    }
}

/// The name of a major number in /proc/devices.
fn class(kind: Kind, major: u32, classes: &str) -> Option<&str> {
    let head = if kind == Kind::Block { "Block devices:" } else { "Character devices:" };
    let section = classes.split_once(head)?.1;
    section.lines().skip(1).take_while(|line| !line.is_empty() && !line.ends_with(':')).find_map(|line| {
        let (number, name) = line.trim().split_once(' ')?;
        (number.parse() == Ok(major)).then_some(name)
    })
}

fn access(allowed: u8) -> String {
    let letters = [(READ, 'r'), (WRITE, 'w'), (MKNOD, 'm')];
    letters.into_iter().filter(|(bit, _)| allowed & bit != 0).map(|(_, letter)| letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: &str = "Character devices:\n  1 mem\n136 pts\n\nBlock devices:\n  8 sd\n";

    fn rule(allow: bool, kind: Kind, major: Option<u32>, minor: Option<u32>, access: u8) -> Rule {
        Rule { allow, kind, major, minor, access }
    }

    #[test]
    fn allowed_devices_are_listed_by_number_or_class() {
        let rules = [
            rule(true, Kind::Char, Some(5), Some(5), 7),
            rule(false, Kind::Any, None, None, 7),
            rule(true, Kind::Char, Some(1), Some(3), 7),
            rule(true, Kind::Char, Some(136), None, READ | WRITE),
            rule(true, Kind::Block, Some(8), None, MKNOD),
            rule(true, Kind::Block, None, None, READ),
            rule(true, Kind::Block, None, None, MKNOD),
            rule(true, Kind::Char, Some(99), None, 7),
            rule(false, Kind::Char, Some(1), Some(3), WRITE),
        ];
        let pairs = [("/dev/char/1:3", "rwm"), ("char-pts", "rw"), ("block-sd", "m"), ("block-*", "rm")];
        let pairs = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(
            properties_with(&rules, CLASSES),
            [
                ("DevicePolicy", text("strict")),
                ("DeviceAllow", Value::Pairs(Vec::new())),
                ("DeviceAllow", Value::Pairs(pairs))
            ]
        );
    }

    #[test]
    fn a_privileged_container_has_no_list() {
        let rules = [rule(false, Kind::Any, None, None, 7), rule(true, Kind::Any, None, None, 7)];
        assert_eq!(properties_with(&rules, CLASSES)[0].1, text("auto"));
    }
}
