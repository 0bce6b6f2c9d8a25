//! Licences, duplicates and sources of every dependency, by the lists in deny.toml.
//!
//! cargo-deny reads the same file and is run where it is installed; building it takes longer than
//! everything else here, so the same lists are also held against `cargo metadata` directly.

use crate::{layout, process};
use anyhow::{Context, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What deny.toml says.
struct Rules {
    licences: BTreeSet<String>,
    banned: BTreeSet<String>,
    skipped: BTreeSet<String>,
    registries: BTreeSet<String>,
}

/// What is known of one package.
struct Package {
    name: String,
    version: String,
    licence: String,
    source: Option<String>,
}

/// Checks every dependency that the product or its tests build on Linux.
pub(crate) fn run() -> anyhow::Result<()> {
    let rules = rules(&std::fs::read_to_string(layout::root().join("deny.toml"))?)?;
    let text = process::capture(process::cargo("metadata").args([
        "--format-version=1",
        "--locked",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ]))?;
    let packages = packages(&serde_json::from_str(&text)?)?;
    let breaches = breaches(&rules, &packages);
    for breach in &breaches {
        println!("{breach}");
    }
    if !breaches.is_empty() {
        bail!("{} breaches of deny.toml", breaches.len());
    }
    println!("deny.toml holds for {} packages", packages.len());
    if process::exists("cargo-deny") {
        process::run(process::cargo("deny").args(["check", "licenses", "bans", "sources"]))?;
    }
    Ok(())
}

fn rules(text: &str) -> anyhow::Result<Rules> {
    let table: toml::Table = text.parse().context("deny.toml")?;
    let list = |section: &str, key: &str| -> BTreeSet<String> {
        let found = table.get(section).and_then(|s| s.get(key)).and_then(toml::Value::as_array);
        let item = |value: &toml::Value| match value {
            toml::Value::String(text) => Some(text.clone()),
            other => Some(other.get("crate")?.as_str()?.to_owned()),
        };
        found.into_iter().flatten().filter_map(item).collect()
    };
    Ok(Rules {
        licences: list("licenses", "allow"),
        banned: list("bans", "deny"),
        skipped: list("bans", "skip"),
        registries: list("sources", "allow-registry"),
    })
}

fn packages(metadata: &Value) -> anyhow::Result<Vec<Package>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("metadata without a resolve")?;
    let used: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().context("metadata without packages")?;
    let of = |value: &Value| Package {
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        version: value["version"].as_str().unwrap_or_default().to_owned(),
        licence: value["license"].as_str().unwrap_or_default().to_owned(),
        source: value["source"].as_str().map(str::to_owned),
    };
    Ok(all.iter().filter(|p| p["id"].as_str().is_some_and(|id| used.contains(id))).map(of).collect())
}

fn breaches(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let shown = format!("{} {}", package.name, package.version);
        versions.entry(&package.name).or_default().insert(&package.version);
        if !licence_holds(&package.licence, &rules.licences) {
            found.push(format!("{shown}: licence {:?} is not in the list", package.licence));
        }
        if rules.banned.contains(&package.name) {
            found.push(format!("{shown}: is banned"));
        }
        if let Some(source) = &package.source
            && !rules.registries.contains(source.trim_start_matches("registry+"))
        {
            found.push(format!("{shown}: comes from {source}"));
        }
    }
    found.extend(stale(rules, &versions));
    for (name, several) in versions.into_iter().filter(|(_, several)| several.len() > 1) {
        let skipped = several.iter().any(|v| rules.skipped.contains(&format!("{name}@{v}")));
        if !skipped && !rules.skipped.contains(name) {
            let all: Vec<&str> = several.into_iter().collect();
            found.push(format!("{name}: {} versions, {}", all.len(), all.join(" and ")));
        }
    }
    found
}

/// Exceptions that nothing needs any more.
fn stale(rules: &Rules, versions: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let needed = |skip: &&String| {
        let (name, version) = skip.split_once('@').unwrap_or((skip, ""));
        versions
            .get(name)
            .is_some_and(|several| several.len() > 1 && (version.is_empty() || several.contains(version)))
    };
    let stale = rules.skipped.iter().filter(|skip| !needed(skip));
    stale.map(|skip| format!("{skip}: the exception in deny.toml is no longer needed")).collect()
}

/// An SPDX expression of ANDs and ORs: each AND part needs one allowed choice.
fn licence_holds(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let plain = expression.replace('/', " OR ");
    let choice = |text: &str| allowed.contains(text.trim_matches([' ', '(', ')']));
    !plain.is_empty() && plain.split(" AND ").all(|part| part.split(" OR ").any(choice))
}

#[cfg(test)]
mod tests {
    use super::{Package, breaches, rules};

    const RULES: &str = "\
        [licenses]\nallow = [\"MIT\", \"Apache-2.0\"]\n\
        [bans]\ndeny = [{ crate = \"openssl\" }]\nskip = [{ crate = \"two@1.0.0\", reason = \"x\" }]\n\
        [sources]\nallow-registry = [\"https://example.test/index\"]\n";

    fn package(name: &str, version: &str, licence: &str) -> Package {
        let source = Some("registry+https://example.test/index".to_owned());
        Package { name: name.into(), version: version.into(), licence: licence.into(), source }
    }

    /// Breaches beside those of the one exception, which is needed only where a test has both versions.
    fn found(packages: &[Package]) -> Vec<String> {
        let all = breaches(&rules(RULES).unwrap(), packages);
        all.into_iter().filter(|breach| !breach.starts_with("two@1.0.0: the exception")).collect()
    }

    #[test]
    fn exceptions_that_nothing_needs_are_named() {
        let once = [package("two", "2.0.0", "MIT")];
        let breaches = breaches(&rules(RULES).unwrap(), &once);
        assert_eq!(breaches, ["two@1.0.0: the exception in deny.toml is no longer needed"]);
    }

    #[test]
    fn good_packages_pass() {
        let good = ["MIT", "MIT OR GPL-3.0", "MIT/Apache-2.0", "(MIT OR Unlicense) AND Apache-2.0"];
        let packages: Vec<_> =
            good.iter().enumerate().map(|(i, l)| package(&format!("p{i}"), "1.0.0", l)).collect();
        assert_eq!(found(&packages), Vec::<String>::new());
    }

    #[test]
    fn each_breach_is_named() {
        assert!(found(&[package("a", "1.0.0", "GPL-3.0")])[0].contains("GPL-3.0"));
        assert!(found(&[package("a", "1.0.0", "")])[0].contains("not in the list"));
        assert!(found(&[package("a", "1.0.0", "MIT AND GPL-3.0")])[0].contains("a 1.0.0"));
        assert!(found(&[package("openssl", "1.0.0", "MIT")])[0].contains("banned"));
        let twice = [package("dup", "1.0.0", "MIT"), package("dup", "2.0.0", "MIT")];
        assert!(found(&twice)[0].contains("dup: 2 versions"));
        let reasoned = [package("two", "1.0.0", "MIT"), package("two", "2.0.0", "MIT")];
        assert!(found(&reasoned).is_empty());
        let foreign = Package { source: Some("git+https://x".into()), ..package("a", "1.0.0", "MIT") };
        assert!(found(&[foreign])[0].contains("comes from git+https://x"));
    }
}
