//! Who may import whom: the table of ARCHITECTURE.md, held against manifests and `use` lines.

use super::walls::has_word;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Folder, crate, and the crates of the house that it may import; nothing else.
const ARROWS: [(&str, &str, &[&str]); 14] = [
    ("core", "berth-core", &[]),
    ("shim/sys", "berth-sys", &[]),
    ("shim/cgroup", "berth-cgroup", &["berth-sys", "berth-core"]),
    ("shim/runtime", "berth-runtime", &["berth-cgroup", "berth-sys", "berth-core"]),
    ("daemon/snapshot", "berth-snapshot", &["berth-sys", "berth-core"]),
    ("daemon/image", "berth-image", &["berth-snapshot", "berth-sys", "berth-core"]),
    ("daemon/network", "berth-network", &["berth-sys", "berth-core"]),
    ("daemon/store", "berth-store", &["berth-core", "berth-image", "berth-snapshot", "berth-network"]),
    ("config", "berth-config", &["berth-core"]),
    ("proto", "berth-proto", &["berth-core"]),
    ("shim", "berth-shim", &["berth-runtime", "berth-cgroup", "berth-proto", "berth-sys", "berth-core"]),
    (
        "daemon",
        "berthd",
        &[
            "berth-store",
            "berth-image",
            "berth-snapshot",
            "berth-network",
            "berth-cgroup",
            "berth-config",
            "berth-proto",
            "berth-sys",
            "berth-core",
        ],
    ),
    ("e2e", "berth-e2e", &["berth-proto", "berth-config", "berth-sys", "berth-core"]),
    ("xtask", "xtask", &[]),
];

/// Foreign crates that stay behind one door: crate, and the folders or files that may name it.
const DOORS: [(&str, &[&str]); 4] = [
    ("redb", &["daemon/store/"]),
    (
        "tonic",
        &[
            "daemon/src/cri",
            "daemon/src/server",
            "daemon/src/events/stream",
            "daemon/tests/",
            "proto/",
            "e2e/",
        ],
    ),
    ("libcontainer", &[]),
    ("libcgroups", &[]),
];

/// Breaches in the manifests: an arrow too many, a crate that the table does not know, a loop.
pub(super) fn manifests(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut breaches = Vec::new();
    let workspace: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let members = workspace.get("workspace").and_then(|w| w.get("members"));
    for member in members.and_then(toml::Value::as_array).into_iter().flatten() {
        let folder = member.as_str().unwrap_or_default();
        let manifest: toml::Table = std::fs::read_to_string(root.join(folder).join("Cargo.toml"))?.parse()?;
        match ARROWS.iter().find(|(known, ..)| *known == folder) {
            Some((_, name, allowed)) => breaches.extend(manifest_breaches(name, allowed, &manifest)),
            None => breaches.push(format!("{folder}: a member that the table of arrows does not know")),
        }
    }
    breaches.extend(loops());
    Ok(breaches)
}

fn manifest_breaches(name: &str, allowed: &[&str], manifest: &toml::Table) -> Vec<String> {
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = sections.iter().filter_map(|s| manifest.get(*s)?.as_table());
    let imported = tables.flat_map(toml::Table::keys);
    imported
        .filter(|dependency| dependency.starts_with("berth"))
        .filter(|dependency| !allowed.contains(&dependency.as_str()))
        .map(|dependency| format!("{name}: its manifest imports {dependency}, which no arrow allows"))
        .collect()
}

/// The table itself must have no loop.
fn loops() -> Vec<String> {
    let mut left: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(_, name, to)| (*name, to.iter().copied().collect())).collect();
    loop {
        let free: Vec<&str> = left.iter().filter(|(_, to)| to.is_empty()).map(|(name, _)| *name).collect();
        if free.is_empty() {
            break;
        }
        left.retain(|name, _| !free.contains(name));
        left.values_mut().for_each(|to| to.retain(|name| !free.contains(name)));
    }
    left.keys().map(|name| format!("{name}: part of a loop of arrows")).collect()
}

/// Breaches in what one file names: `berth_x` without an arrow, a foreign crate outside its door.
pub(super) fn uses(path: &Path, code: &str) -> Vec<String> {
    let Some((_, name, allowed)) = owner(path) else { return Vec::new() };
    let mut breaches = Vec::new();
    for (at, line) in code.lines().enumerate() {
        for (_, other, _) in ARROWS.iter().filter(|(_, other, _)| other != name) {
            let word = other.replace('-', "_");
            if names_crate(line, &word) && !allowed.contains(other) {
                breaches.push(format!("{}:{}: {name} names {other}", path.display(), at + 1));
            }
        }
        for (foreign, doors) in &DOORS {
            let open = doors.iter().any(|door| path.to_string_lossy().starts_with(door));
            if names_crate(line, foreign) && !open {
                let place = format!("{}:{}", path.display(), at + 1);
                breaches.push(format!("{place}: {foreign} belongs behind {}", doors.join(", ")));
            }
        }
    }
    breaches
}

/// The row of the crate that a file belongs to: the longest folder that it lies in.
fn owner(path: &Path) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    let rows = ARROWS.iter().filter(|(folder, ..)| path.starts_with(folder));
    rows.max_by_key(|(folder, ..)| folder.len())
}

fn names_crate(line: &str, word: &str) -> bool {
    has_word(line, word)
        && (line.contains(&format!("{word}::"))
            || line.contains(&format!("use {word}"))
            || line.contains(&format!("extern crate {word}")))
}

#[cfg(test)]
mod tests {
    use super::{loops, manifest_breaches, uses};
    use std::path::Path;

    #[test]
    fn the_table_has_no_loop() {
        assert_eq!(loops(), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_too_many_is_seen_in_a_manifest() {
        let manifest = "[dependencies]\nberth-runtime = {}\nserde = {}\n".parse().unwrap();
        let found = manifest_breaches("berthd", &["berth-core"], &manifest);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("berth-runtime"), "{found:?}");
    }

    #[test]
    fn an_arrow_too_many_is_seen_in_code() {
        let code = "use berth_runtime::create;\nuse berth_core::id;\n";
        let found = uses(Path::new("daemon/src/app.rs"), code);
        assert_eq!(found, ["daemon/src/app.rs:1: berthd names berth-runtime"]);
        assert!(uses(Path::new("shim/src/serve.rs"), code).is_empty());
    }

    #[test]
    fn foreign_crates_stay_behind_their_doors() {
        let code = "use tonic::Status;\n";
        assert_eq!(uses(Path::new("daemon/src/pod/actor.rs"), code).len(), 1);
        assert!(uses(Path::new("daemon/src/cri/runtime.rs"), code).is_empty());
        assert_eq!(uses(Path::new("daemon/src/app.rs"), "redb::Database::open(x)").len(), 1);
        assert!(uses(Path::new("daemon/store/src/lib.rs"), "use redb::Database;").is_empty());
    }
}
