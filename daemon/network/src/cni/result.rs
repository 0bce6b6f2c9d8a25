//! What plugins print: results of every version, and errors.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::version::Version;
use crate::attachment::PodIp;

/// A result, as JSON in the version of its network.
pub(super) type Json = Map<String, Value>;

/// Parses a result and brings it into the version of its network, in which it becomes the next plugin's
/// `prevResult`.
pub(super) fn parse(stdout: &[u8], wanted: Version) -> Result<Json, String> {
    let text = String::from_utf8_lossy(stdout);
    if text.trim().is_empty() {
        return Err("it printed nothing".into());
    }
    let Value::Object(mut result) = serde_json::from_str(&text).map_err(|e| e.to_string())? else {
        return Err("it printed no JSON object".into());
    };
    let said = result.get("cniVersion").and_then(Value::as_str);
    let version = match said {
        Some(text) if !text.is_empty() => {
            Version::parse(text).ok_or_else(|| format!("its cniVersion {text:?} is not known"))?
        }
        _ => wanted,
    };
    if version.has_lists() != wanted.has_lists() {
        return Err(format!(
            "its result of version {version} cannot be used in a network of version {wanted}"
        ));
    }
    if let Some(ips) = result.get_mut("ips").and_then(Value::as_array_mut) {
        ips.iter_mut().filter_map(Value::as_object_mut).for_each(|ip| mark_family(ip, wanted));
    }
    result.insert("cniVersion".into(), wanted.to_string().into());
    Ok(result)
}

fn mark_family(ip: &mut Json, wanted: Version) {
    if !wanted.marks_family() {
        ip.remove("version");
    } else if let Some(address) = ip.get("address").and_then(Value::as_str) {
        let family = if address.contains(':') { "6" } else { "4" };
        ip.insert("version".into(), family.into());
    }
}

/// The pod's addresses in the order of the result: those of its main interface, else of any interface inside the
/// pod, else all.
pub(super) fn addresses(result: &Json, interface: &str) -> Result<Vec<PodIp>, String> {
    let ips = result.get("ips").and_then(Value::as_array);
    let Some(ips) = ips else { return families(result) };
    let interfaces = result.get("interfaces").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of = |ip: &Value| {
        let at = ip.get("interface").and_then(Value::as_u64);
        at.and_then(|at| interfaces.get(usize::try_from(at).ok()?))
    };
    let inside = |link: &Value| text(link, "sandbox").is_some_and(|s| !s.is_empty());
    let main = |ip: &&Value| of(ip).is_none_or(|l| inside(l) && text(l, "name") == Some(interface));
    let any = |ip: &&Value| of(ip).is_none_or(inside);
    let mut chosen: Vec<&Value> = ips.iter().filter(main).collect();
    if chosen.is_empty() {
        chosen = ips.iter().filter(any).collect();
    }
    if chosen.is_empty() {
        chosen = ips.iter().collect();
    }
    chosen.into_iter().map(|ip| address(text(ip, "address"), text(ip, "gateway"))).collect()
}

/// Hardware address of the pod's main interface.
pub(super) fn mac(result: &Json, interface: &str) -> Option<String> {
    let links = result.get("interfaces").and_then(Value::as_array)?;
    let inside = |l: &&Value| text(l, "sandbox").is_some_and(|s| !s.is_empty());
    let link = links.iter().filter(inside).find(|l| text(l, "name") == Some(interface))?;
    text(link, "mac").filter(|mac| !mac.is_empty()).map(str::to_owned)
}

/// Versions before 0.3 have one address per family.
fn families(result: &Json) -> Result<Vec<PodIp>, String> {
    let found = ["ip4", "ip6"].into_iter().filter_map(|key| result.get(key));
    found.map(|ip| address(text(ip, "ip"), text(ip, "gateway"))).collect()
}

fn address(cidr: Option<&str>, gateway: Option<&str>) -> Result<PodIp, String> {
    let bad = || format!("{cidr:?} is no address with a prefix");
    let (ip, prefix) = cidr.and_then(|text| text.split_once('/')).ok_or_else(bad)?;
    let address: IpAddr = ip.parse().map_err(|_| bad())?;
    let prefix: u8 = prefix.parse().map_err(|_| bad())?;
    if prefix > if address.is_ipv4() { 32 } else { 128 } {
        return Err(bad());
    }
    Ok(PodIp { address, prefix, gateway: gateway.and_then(|g| g.parse().ok()) })
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// The error that a plugin printed: its code and its words.
pub(super) fn error(stdout: &[u8]) -> Option<(u64, String)> {
    let said: Value = serde_json::from_slice(stdout).ok()?;
    let code = said.get("code").and_then(Value::as_u64);
    let (msg, details) = (text(&said, "msg").unwrap_or(""), text(&said, "details").unwrap_or(""));
    if code.is_none() && msg.is_empty() {
        return None;
    }
    let words = [msg, details].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ");
    let words = if words.is_empty() { format!("code {}", code.unwrap_or(0)) } else { words };
    Some((code.unwrap_or(0), words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(text: &str) -> Vec<String> {
        let result = parse(text.as_bytes(), Version::parse("1.1.0").unwrap()).unwrap();
        addresses(&result, "eth0").unwrap().iter().map(|ip| format!("{}/{}", ip.address, ip.prefix)).collect()
    }

    #[test]
    fn order_is_kept_and_other_interfaces_are_left_out() {
        let text = r#"{"cniVersion":"1.0.0","interfaces":[{"name":"br0"},{"name":"eth0","sandbox":"/n","mac":"02:0"},
            {"name":"net1","sandbox":"/n"}],"ips":[{"address":"fd00::9/64","interface":1},
            {"address":"10.0.0.9/24","interface":1,"gateway":"10.0.0.1"},{"address":"10.9.9.9/24","interface":2}]}"#;
        assert_eq!(ips(text), ["fd00::9/64", "10.0.0.9/24"]);
        let result = parse(text.as_bytes(), Version::parse("1.1.0").unwrap()).unwrap();
        assert_eq!(mac(&result, "eth0").as_deref(), Some("02:0"));
        assert_eq!(result["cniVersion"], "1.1.0");
    }

    #[test]
    fn addresses_without_interface_or_with_a_wild_index_count() {
        assert_eq!(ips(r#"{"ips":[{"address":"10.0.0.9/24"}]}"#), ["10.0.0.9/24"]);
        assert_eq!(ips(r#"{"ips":[{"address":"10.0.0.9/24","interface":7}]}"#), ["10.0.0.9/24"]);
        assert_eq!(ips(r#"{"ips":[{"address":"10.0.0.9/24","interface":-1}]}"#), ["10.0.0.9/24"]);
        assert_eq!(ips("{}"), [""; 0]);
    }

    #[test]
    fn old_versions_are_read() {
        let old = Version::parse("0.2.0").unwrap();
        let result =
            parse(br#"{"ip4":{"ip":"10.0.0.9/24","gateway":"10.0.0.1"},"ip6":{"ip":"fd00::9/64"}}"#, old);
        let got = addresses(&result.unwrap(), "eth0").unwrap();
        assert_eq!(got.len(), 2);
        assert_eq!(got[0].gateway.unwrap().to_string(), "10.0.0.1");
        let v04 = Version::parse("0.4.0").unwrap();
        let result = parse(br#"{"cniVersion":"1.0.0","ips":[{"address":"fd00::9/64"}]}"#, v04).unwrap();
        assert_eq!(result["ips"][0]["version"], "6");
    }

    #[test]
    fn nonsense_is_named() {
        let v = Version::parse("1.1.0").unwrap();
        for (text, why) in [
            ("", "nothing"),
            ("hello", "expected"),
            ("[]", "no JSON object"),
            (r#"{"cniVersion":"7.0.0"}"#, "7.0.0"),
            (r#"{"cniVersion":"0.2.0"}"#, "cannot be used"),
        ] {
            let got = parse(text.as_bytes(), v).unwrap_err();
            assert!(got.contains(why), "{text}: {got}");
        }
        for bad in ["10.0.0.9", "10.0.0.9/33", "x/24", "10.0.0.9/x"] {
            let result = parse(format!(r#"{{"ips":[{{"address":"{bad}"}}]}}"#).as_bytes(), v).unwrap();
            assert!(addresses(&result, "eth0").unwrap_err().contains(bad));
        }
    }

    #[test]
    fn errors_are_read() {
        assert_eq!(error(br#"{"code":7,"msg":"no","details":"really"}"#), Some((7, "no; really".into())));
        assert_eq!(error(br#"{"code":7}"#), Some((7, "code 7".into())));
        assert_eq!(error(b"boom"), None);
        assert_eq!(error(b"{}"), None);
    }
}
