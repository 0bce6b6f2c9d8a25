//! The files made for a pod: hosts, hostname, resolv.conf.

use super::{DnsConfig, SandboxConfig};
use crate::pod::{Error, PodPaths};
use std::net::IpAddr;
use std::path::Path;

/// The files: name below the pod's directory, path in its containers.
pub(crate) const FILES: [(&str, &str); 3] =
    [("hostname", "/etc/hostname"), ("hosts", "/etc/hosts"), ("resolv.conf", "/etc/resolv.conf")];

/// The host's own, for pods in its network and for pods without DNS settings. Longer ones are nobody's.
const HOST_FILE_MAX: u64 = 1 << 20;

/// The host name of a pod: its own, or the host's.
pub(super) fn hostname(config: &SandboxConfig) -> String {
    if !config.hostname.is_empty() && !config.host_network() {
        return config.hostname.clone();
    }
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Writes the files. Blocking.
///
/// # Errors
/// Names the file.
pub(super) fn write(config: &SandboxConfig, paths: &PodPaths, ips: &[IpAddr]) -> Result<(), Error> {
    let name = hostname(config);
    put(&paths.file("hostname"), format!("{name}\n").as_bytes())?;
    let hosts = match config.host_network() {
        true => host_file("/etc/hosts")?,
        false => hosts(&name, ips).into_bytes(),
    };
    put(&paths.file("hosts"), &hosts)?;
    let resolv = match &config.dns {
        Some(dns) if !dns.is_empty() => resolv_conf(dns)?.into_bytes(),
        _ => host_file("/etc/resolv.conf")?,
    };
    put(&paths.file("resolv.conf"), &resolv)
}

fn put(path: &Path, content: &[u8]) -> Result<(), Error> {
    let written = std::fs::write(path, content).and_then(|()| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))
    });
    written.map_err(|error| Error::file(format!("write {}", path.display()), &error))
}

fn host_file(path: &str) -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let mut content = Vec::new();
    match std::fs::File::open(path).and_then(|file| file.take(HOST_FILE_MAX).read_to_end(&mut content)) {
        Ok(_) => Ok(content),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(content),
        Err(error) => Err(Error::internal(format!("read {path}"), error)),
    }
}

fn hosts(name: &str, ips: &[IpAddr]) -> String {
    let mut text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
                    fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\n\
                    fe00::2\tip6-allrouters\n"
        .to_owned();
    for ip in ips {
        text.push_str(&format!("{ip}\t{name}\n"));
    }
    text
}

impl DnsConfig {
    /// True when it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.searches.is_empty() && self.options.is_empty()
    }
}

fn resolv_conf(dns: &DnsConfig) -> Result<String, Error> {
    let all = [("servers", &dns.servers), ("searches", &dns.searches), ("options", &dns.options)];
    for (field, values) in all {
        if values.iter().any(|value| value.is_empty() || value.chars().any(|c| c.is_control() || c == ' ')) {
            return Err(Error::invalid(
                format!("config.dns_config.{field}"),
                "holds an empty value, a space or a line end",
            ));
        }
    }
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    for server in &dns.servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_is_what_was_asked_for() {
        let dns = DnsConfig {
            servers: vec!["10.0.0.10".into(), "fd00::10".into()],
            searches: vec!["a.local".into(), "local".into()],
            options: vec!["ndots:5".into()],
        };
        let text = "search a.local local\nnameserver 10.0.0.10\nnameserver fd00::10\noptions ndots:5\n";
        assert_eq!(resolv_conf(&dns).unwrap(), text);
        let bad = DnsConfig { servers: vec!["1.1.1.1\nsearch x".into()], ..DnsConfig::default() };
        assert!(resolv_conf(&bad).unwrap_err().to_string().starts_with("config.dns_config.servers"));
    }

    #[test]
    fn the_pod_finds_itself_by_name() {
        let text = hosts("web", &["10.1.2.3".parse().unwrap()]);
        assert!(text.starts_with("127.0.0.1\tlocalhost\n") && text.ends_with("10.1.2.3\tweb\n"));
    }
}
