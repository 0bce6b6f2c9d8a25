//! Takes down what killed runs left behind, by the names that all of them share.

use berth_e2e::leak::{self, Owned};
use berth_e2e::node::hierarchies;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Finds every tag of a dead run and takes its node down.
pub(crate) fn run(prefix: &str) -> ExitCode {
    let names = names(prefix);
    for name in &names {
        let tag = &name[prefix.len()..];
        let owned = Owned {
            name: name.clone(),
            bridge: format!("be{}", tag.replace('-', "x")),
            dir: std::env::temp_dir().join(name),
            ids: ids(name),
        };
        println!("taking down {name}");
        leak::force(&owned);
        for root in hierarchies() {
            leak::remove_cgroup(&root.join(name));
        }
        let _ = fs::remove_dir_all(&owned.dir);
    }
    println!("{} nodes of killed runs taken down", names.len());
    ExitCode::SUCCESS
}

/// Names of nodes whose folder or cgroup is there, and whose run is not.
fn names(prefix: &str) -> BTreeSet<String> {
    let mut places = hierarchies();
    places.push(std::env::temp_dir());
    let found = places.iter().flat_map(|place| below(place));
    let named = found.filter(|name| name.starts_with(prefix) && name.len() == prefix.len() + 9);
    named.filter(|name| !alive(&std::env::temp_dir().join(name))).collect()
}

/// A run writes its pid into each of its nodes' folders.
fn alive(dir: &Path) -> bool {
    let pid = fs::read_to_string(dir.join("runner.pid")).unwrap_or_default();
    !pid.is_empty() && Path::new("/proc").join(pid.trim()).exists()
}

/// Names of everything in a folder.
fn below(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Ids of sandboxes and containers: the leaves of its cgroups.
fn ids(name: &str) -> BTreeSet<String> {
    let pods = hierarchies().into_iter().map(|root| root.join(name));
    let mut folders: Vec<PathBuf> = pods.collect();
    let mut ids = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for name in below(&folder) {
            let path = folder.join(&name);
            if name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit()) {
                ids.insert(name);
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    ids
}
