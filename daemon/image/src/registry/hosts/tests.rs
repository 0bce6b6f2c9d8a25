//! containerd's hosts.toml, as its documentation shows it.

use super::*;

fn load_text(host: &str, dir: &str, text: &str) -> Result<Vec<Endpoint>, HostsError> {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join(dir)).unwrap();
    std::fs::write(root.path().join(dir).join("hosts.toml"), text).unwrap();
    load(root.path(), host)
}

#[test]
fn mirrors_come_in_the_files_order_and_the_registry_last() {
    let text = r#"
server = "https://registry-1.docker.io"
[host."https://z.example"]
  capabilities = ["pull"]
[host."http://a.example:5000/some/path"]
  capabilities = ["pull", "resolve", "push"]
  dial_timeout = "1m1.5s"
  [host."http://a.example:5000/some/path".header]
    x-one = "1"
    x-two = ["a", "b"]
[host."https://m.example/raw"]
  override_path = true
"#;
    let hosts = load_text("docker.io", "docker.io", text).unwrap();
    let names: Vec<_> = hosts.iter().map(|host| format!("{host:?}")).collect();
    assert_eq!(
        names,
        [
            "https://z.example/v2",
            "http://a.example:5000/some/path/v2",
            "https://m.example/raw",
            "https://registry-1.docker.io/v2"
        ]
    );
    assert!(hosts[0].pull && !hosts[0].resolve && !hosts[0].trusted);
    assert_eq!(hosts[1].headers.len(), 3);
    assert_eq!(hosts[1].dial_timeout, Duration::from_millis(61_500));
    assert_eq!(hosts[1].namespace.as_deref(), Some("docker.io"));
    assert!(hosts[3].trusted && hosts[3].namespace.is_none());
}

#[test]
fn a_server_in_the_own_file_is_the_registry_but_not_one_in_default() {
    let text = "server = \"http://127.0.0.1:7777\"\n";
    let own = load_text("r.example", "r.example", text).unwrap();
    assert_eq!(own.len(), 1);
    assert!(own[0].trusted && own[0].namespace.as_deref() == Some("r.example"));
    let shared = load_text("r.example", "_default", text).unwrap();
    assert!(!shared[0].trusted);
}

#[test]
fn hosts_with_a_port_have_two_directory_names() {
    let text = "server = \"https://x\"\n";
    for dir in ["r.example_5000_", "r.example:5000"] {
        assert_eq!(load_text("r.example:5000", dir, text).unwrap()[0].authority, "x");
    }
    assert_eq!(load_text("r.example:5000", "r.example", text).unwrap()[0].authority, "r.example:5000");
}

#[test]
fn damaged_files_stop_the_pull_and_say_where() {
    for text in [
        "server = 5",
        "server = \"ftp://x\"",
        "[host.\"https://x\"]\ncapabilities = [\"fly\"]",
        "[host.\"https://x\"]\ndial_timeout = \"soon\"",
        "[host.\"https://x\"]\nca = \"missing.pem\"",
        "[host.\"https://x\"]\nskip_verify = \"yes\"",
        "= nonsense",
    ] {
        let error = load_text("h", "h", text).unwrap_err().to_string();
        assert!(error.contains("hosts.toml") || error.contains("missing.pem"), "{error}");
    }
}

#[test]
fn certificates_are_read_beside_the_file() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("h");
    std::fs::create_dir(&dir).unwrap();
    for name in ["ca.pem", "c.pem", "k.pem"] {
        std::fs::write(dir.join(name), name).unwrap();
    }
    let text = "ca = \"ca.pem\"\nclient = [[\"c.pem\", \"k.pem\"]]\n[host.\"https://m\"]\nca = [\"ca.pem\", \"c.pem\"]\nclient = \"c.pem\"";
    std::fs::write(dir.join("hosts.toml"), text).unwrap();
    let hosts = load(root.path(), "h").unwrap();
    assert_eq!(hosts[0].tls.ca.len(), 2);
    assert_eq!(hosts[0].tls.client, [(b"c.pem".to_vec(), b"c.pem".to_vec())]);
    assert_eq!(hosts[1].tls.client, [(b"c.pem".to_vec(), b"k.pem".to_vec())]);
}

#[test]
fn no_directory_at_all_means_the_registry_itself() {
    let hosts = load(Path::new("/nonexistent"), "docker.io").unwrap();
    assert_eq!(hosts[0].to_string(), "https://registry-1.docker.io");
}
