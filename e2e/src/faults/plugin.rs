//! A CNI plugin with moods: it does its work, fails, hangs, dies or babbles, as a file says.

use crate::node::Node;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What the plugin does to a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Its work.
    Well,
    /// Ends with an error of the specification's form.
    Fails,
    /// Does not answer within the time that it is given.
    Hangs,
    /// Is killed before it has said anything.
    Dies,
    /// Says something that is no result, and ends well.
    Babbles,
}

/// Where the plugin stands in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before the usual ones: at ADD nothing is made yet, at DEL everything else is gone.
    First,
    /// Behind them: at ADD everything is made, at DEL nothing is gone.
    Last,
}

/// One plugin of one node.
pub struct Plugin {
    name: &'static str,
    dir: PathBuf,
}

impl Plugin {
    /// Adds it to the node's network, whose plugins then have two seconds each; the daemon must not run yet.
    pub fn install(node: &Node, position: Position) -> anyhow::Result<Self> {
        let name = match position {
            Position::First => "early",
            Position::Last => "moody",
        };
        let dir = node.dir().join(name);
        fs::create_dir_all(&dir)?;
        let program = dir.join(name);
        fs::write(&program, script(&dir.display().to_string()))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let conf = node.dir().join("cni/10-e2e.conflist");
        let mut list: serde_json::Value = serde_json::from_slice(&fs::read(&conf)?)?;
        if let Some(plugins) = list["plugins"].as_array_mut() {
            let at = if position == Position::First { 0 } else { plugins.len() };
            plugins.insert(at, serde_json::json!({ "type": name }));
        }
        fs::write(&conf, list.to_string())?;
        let config = fs::read_to_string(node.config_path())?.replace("plugin_seconds = 2\n", "");
        let with = format!("plugin_seconds = 2\nbin_dirs = [\"{}\", ", dir.display());
        fs::write(node.config_path(), config.replace("bin_dirs = [", &with))?;
        Ok(Self { name, dir })
    }

    /// Its name, which errors tell.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it does from now on when called for `verb` (`ADD`, `DEL`, `ANY` for both); other verbs go well.
    pub fn be(&self, verb: &str, mood: Mood) -> anyhow::Result<()> {
        // Renamed into place, so that no call reads half of it.
        fs::write(self.dir.join("next"), format!("{verb} {mood:?}"))?;
        fs::rename(self.dir.join("next"), self.dir.join("mood"))?;
        match fs::remove_file(self.dir.join("called")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until it was called in the mood that it was last given.
    pub async fn called(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        while !self.dir.join("called").exists() {
            if begun.elapsed() > limit {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }
}

/// Deletes the bridge that the real plugins made: it stays after the last pod, so it is the test's.
pub fn remove_bridge(node: &Node) {
    let bridge = node.tag().bridge();
    // Where no pod was made there is none; one that stays is told by the leak checker.
    let _ = std::process::Command::new("ip").args(["link", "delete", &bridge]).output();
}

/// Addresses that host-local still holds for the node's pods.
pub fn held_addresses(node: &Node) -> Vec<String> {
    let leases = node.dir().join("cni-leases").join(node.tag().name());
    let entries = fs::read_dir(&leases).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("10.")).collect()
}

/// The result of the plugin before it is handed on, as the specification asks of a chained plugin.
fn script(dir: &str) -> String {
    format!(
        r#"#!/bin/sh
conf=$(cat)
[ "$CNI_COMMAND" = VERSION ] && {{ echo '{{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}}'; exit 0; }}
mood=$(cat {dir}/mood 2>/dev/null)
case "$CNI_COMMAND" in ADD | DEL) mood=$(echo "$mood" | sed "s/^ANY/$CNI_COMMAND/") ;; esac
case "$mood" in
"$CNI_COMMAND Well") ;;
"$CNI_COMMAND "*) : > {dir}/called ;;
esac
case "$mood" in
"$CNI_COMMAND Fails") echo '{{"cniVersion":"1.1.0","code":100,"msg":"in a bad mood"}}'; exit 1 ;;
"$CNI_COMMAND Hangs") exec sleep 100 ;;
"$CNI_COMMAND Dies") kill -9 $$ ;;
"$CNI_COMMAND Babbles") echo 'this is no JSON'; exit 0 ;;
esac
[ "$CNI_COMMAND" = ADD ] || exit 0
printf '%s\n' "$conf" | awk '{{
    at = index($0, "\"prevResult\":")
    if (!at) {{ print "{{\"cniVersion\":\"1.1.0\"}}"; exit }}
    rest = substr($0, at + 13)
    for (i = 1; i <= length(rest); i++) {{
        c = substr(rest, i, 1)
        if (c == "{{") depth++
        if (c == "}}" && --depth == 0) {{ print substr(rest, 1, i); exit }}
    }}
}}'
"#
    )
}
