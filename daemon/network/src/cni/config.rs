//! Network configurations: `.conflist`, and `.conf` or `.json` with one plugin.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::version::Version;

/// A network as an administrator wrote it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    /// Its name.
    pub(super) name: String,
    /// The version that its plugins are spoken to in.
    pub(super) version: Version,
    /// Whether CHECK is not to be called.
    pub(super) disable_check: bool,
    /// Whether GC is not to be called.
    pub(super) disable_gc: bool,
    /// Its plugins, in order.
    pub(super) plugins: Vec<Plugin>,
    /// The whole as JSON, to be saved with each attachment.
    pub(super) text: String,
}

/// One plugin of a network.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plugin {
    /// Name of the binary.
    pub(super) kind: String,
    /// Its configuration.
    pub(super) conf: Map<String, Value>,
}

impl Plugin {
    /// Whether the plugin asks for a capability's argument.
    pub(super) fn wants(&self, capability: &str) -> bool {
        let capabilities = self.conf.get("capabilities").and_then(Value::as_object);
        capabilities.and_then(|c| c.get(capability)).and_then(Value::as_bool) == Some(true)
    }

    /// The address plugin that this one runs, with the configuration that it gives it.
    pub(super) fn ipam(&self) -> Option<Plugin> {
        let kind = self.conf.get("ipam")?.get("type")?.as_str()?;
        is_file_name(kind).then(|| Plugin { kind: kind.to_owned(), conf: self.conf.clone() })
    }
}

/// Reads a file. Plugins in a directory beside it that bears the network's name are added to the list.
pub(super) fn read(file: &Path) -> Result<Network, String> {
    let text = fs::read_to_string(file).map_err(|e| e.to_string())?;
    let mut whole = object(&text)?;
    let name = name_of(&whole)?;
    let inlined_only = whole.get("loadOnlyInlinedPlugins").is_some_and(truthy);
    if let (true, false, Some(dir)) = (is_list(file, &whole), inlined_only, file.parent()) {
        let more = beside(&dir.join(name))?;
        if !more.is_empty() {
            let plugins = whole.entry("plugins").or_insert_with(|| Value::Array(Vec::new()));
            plugins.as_array_mut().ok_or("\"plugins\" is no list")?.extend(more);
        }
    }
    build(whole)
}

/// Parses a saved configuration.
pub(super) fn parse(text: &str) -> Result<Network, String> {
    build(object(text)?)
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text).map_err(|e| e.to_string())? {
        Value::Object(whole) => Ok(whole),
        _ => Err("not a JSON object".into()),
    }
}

fn is_list(file: &Path, whole: &Map<String, Value>) -> bool {
    file.extension().is_some_and(|e| e == "conflist") || whole.contains_key("plugins")
}

fn beside(dir: &Path) -> Result<Vec<Value>, String> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(Vec::new()) };
    let mut files: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "conf"));
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let text = fs::read_to_string(file).map_err(|e| e.to_string());
        let conf = text.and_then(|text| object(&text));
        conf.map(Value::Object).map_err(|e| format!("{}: {e}", file.display()))
    };
    files.iter().map(read).collect()
}

fn build(whole: Map<String, Value>) -> Result<Network, String> {
    let name = name_of(&whole)?.to_owned();
    let version = version_of(&whole)?;
    let plugins = match whole.get("plugins") {
        Some(Value::Array(list)) => list.iter().map(plugin).collect::<Result<Vec<_>, _>>()?,
        Some(_) => return Err("\"plugins\" is no list".into()),
        None => vec![plugin(&Value::Object(whole.clone()))?],
    };
    if plugins.is_empty() {
        return Err("the network has no plugins".into());
    }
    Ok(Network {
        name,
        version,
        disable_check: whole.get("disableCheck").is_some_and(truthy),
        disable_gc: whole.get("disableGC").is_some_and(truthy),
        plugins,
        text: Value::Object(whole).to_string(),
    })
}

fn name_of(whole: &Map<String, Value>) -> Result<&str, String> {
    let name = whole.get("name").and_then(Value::as_str).ok_or("no \"name\"")?;
    if is_word(name) { Ok(name) } else { Err(format!("{name:?} cannot name a network")) }
}

/// What the specification allows in names of networks and containers: they become file names.
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// The highest version among `cniVersions` and `cniVersion` that is known here.
fn version_of(whole: &Map<String, Value>) -> Result<Version, String> {
    let one = whole.get("cniVersion");
    let listed = whole.get("cniVersions").and_then(Value::as_array).into_iter().flatten();
    let named: Vec<&str> = one.into_iter().chain(listed).filter_map(Value::as_str).collect();
    if named.is_empty() {
        return Ok(Version::default());
    }
    let known = named.iter().filter_map(|text| Version::parse(text)).max();
    known.ok_or_else(|| format!("cniVersion {} is not known; 1.1.0 and older are", named.join(", ")))
}

fn plugin(value: &Value) -> Result<Plugin, String> {
    let conf = value.as_object().ok_or("a plugin is no JSON object")?;
    let kind = conf.get("type").and_then(Value::as_str).ok_or("a plugin without \"type\"")?;
    // A path would let a configuration run any program of the node.
    if !is_file_name(kind) {
        return Err(format!("plugin type {kind:?} is no file name"));
    }
    Ok(Plugin { kind: kind.to_owned(), conf: conf.clone() })
}

fn is_file_name(kind: &str) -> bool {
    !(kind.is_empty() || kind.contains('/') || kind.contains('\0') || matches!(kind, "." | ".."))
}

/// The reference implementation takes `true` and `"true"`.
fn truthy(value: &Value) -> bool {
    value.as_bool().unwrap_or_else(|| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("true")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_plugin_is_a_list_of_one() {
        let one = parse(
            r#"{"cniVersion":"0.4.0","name":"n","type":"bridge","capabilities":{"dns":true,"ips":false}}"#,
        );
        let one = one.unwrap();
        assert_eq!((one.plugins.len(), one.plugins[0].kind.as_str()), (1, "bridge"));
        assert!(one.plugins[0].wants("dns") && !one.plugins[0].wants("ips") && !one.plugins[0].wants("mac"));
    }

    #[test]
    fn the_highest_known_version_is_spoken() {
        let version = |text: &str| parse(text).map(|n| n.version.to_string());
        let list = r#"{"name":"n","type":"p","cniVersion":"0.4.0","cniVersions":["1.1.0","9.9.9"]}"#;
        assert_eq!(version(list).unwrap(), "1.1.0");
        assert_eq!(version(r#"{"name":"n","type":"p"}"#).unwrap(), "0.1.0");
        assert!(version(r#"{"name":"n","type":"p","cniVersion":"9.9.9"}"#).unwrap_err().contains("9.9.9"));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for (text, why) in [
            ("", "EOF"),
            ("[]", "not a JSON object"),
            (r#"{"type":"p"}"#, "no \"name\""),
            (r#"{"name":"../x","type":"p"}"#, "cannot name"),
            (r#"{"name":"n"}"#, "without \"type\""),
            (r#"{"name":"n","plugins":[]}"#, "no plugins"),
            (r#"{"name":"n","plugins":{}}"#, "no list"),
            (r#"{"name":"n","plugins":[7]}"#, "no JSON object"),
            (r#"{"name":"n","type":"../../bin/sh"}"#, "is no file name"),
            (r#"{"name":"n","type":".."}"#, "is no file name"),
        ] {
            let got = parse(text).unwrap_err();
            assert!(got.contains(why), "{text}: {got}");
        }
    }

    #[test]
    fn switches_may_be_words() {
        let net = parse(r#"{"name":"n","type":"p","disableCheck":"True","disableGC":true}"#).unwrap();
        assert!(net.disable_check && net.disable_gc);
    }

    #[test]
    fn plugins_beside_a_list_are_added_unless_it_says_no() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("10.conflist");
        fs::create_dir(dir.path().join("n")).unwrap();
        fs::write(dir.path().join("n/20.conf"), r#"{"type":"b"}"#).unwrap();
        fs::write(dir.path().join("n/10.conf"), r#"{"type":"a"}"#).unwrap();
        fs::write(dir.path().join("n/README"), "x").unwrap();
        fs::write(&file, r#"{"name":"n"}"#).unwrap();
        let kinds = |n: Network| n.plugins.into_iter().map(|p| p.kind).collect::<Vec<_>>();
        assert_eq!(kinds(read(&file).unwrap()), ["a", "b"]);
        fs::write(&file, r#"{"name":"n","plugins":[{"type":"c"}],"loadOnlyInlinedPlugins":true}"#).unwrap();
        assert_eq!(kinds(read(&file).unwrap()), ["c"]);
        fs::write(dir.path().join("n/30.conf"), "{").unwrap();
        fs::write(&file, r#"{"name":"n","plugins":[{"type":"c"}]}"#).unwrap();
        assert!(read(&file).unwrap_err().contains("30.conf"));
    }
}
