//! A CNI plugin with moods: it does its work, fails, or hangs, as a file says.

use crate::node::Node;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// What the plugin does to a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Its work.
    Well,
    /// Ends with an error of the specification's form.
    Fails,
    /// Does not answer within the time that it is given.
    Hangs,
}

/// The plugin of one node, chained behind the usual ones.
pub struct Plugin {
    mood: PathBuf,
}

impl Plugin {
    /// Puts it behind the plugins of the node's network; the node's daemon must not run yet.
    pub fn install(node: &Node) -> anyhow::Result<Self> {
        let dir = node.dir().join("moody");
        fs::create_dir_all(&dir)?;
        let mood = dir.join("mood");
        let program = dir.join("moody");
        fs::write(&program, script(&mood.display().to_string()))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let conf = node.dir().join("cni/10-e2e.conflist");
        let mut list: serde_json::Value = serde_json::from_slice(&fs::read(&conf)?)?;
        if let Some(plugins) = list["plugins"].as_array_mut() {
            plugins.push(serde_json::json!({ "type": "moody" }));
        }
        fs::write(&conf, list.to_string())?;
        let config = fs::read_to_string(node.config_path())?;
        let with = format!("bin_dirs = [\"{}\", ", dir.display());
        fs::write(node.config_path(), config.replace("bin_dirs = [", &with))?;
        Ok(Self { mood })
    }

    /// What it does from now on when called for `verb` (`ADD`, `DEL`); other verbs go well.
    pub fn be(&self, verb: &str, mood: Mood) -> anyhow::Result<()> {
        Ok(fs::write(&self.mood, format!("{verb} {mood:?}"))?)
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
fn script(mood: &str) -> String {
    format!(
        r#"#!/bin/sh
conf=$(cat)
[ "$CNI_COMMAND" = VERSION ] && {{ echo '{{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}}'; exit 0; }}
case "$(cat {mood} 2>/dev/null)" in
"$CNI_COMMAND Fails") echo '{{"cniVersion":"1.1.0","code":100,"msg":"in a bad mood"}}'; exit 1 ;;
"$CNI_COMMAND Hangs") exec sleep 100 ;;
esac
[ "$CNI_COMMAND" = ADD ] || exit 0
printf %s "$conf" | python3 -c 'import json,sys; print(json.dumps(json.load(sys.stdin)["prevResult"]))'
"#
    )
}
