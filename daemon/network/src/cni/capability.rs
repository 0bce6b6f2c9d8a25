//! What pods ask for, in the words of plugins: capability arguments and CNI_ARGS.

use serde_json::{Map, Value, json};

use super::CniError;
use crate::pod::{IpRange, PodNet};

/// The arguments of every capability that the pod makes use of.
pub(super) fn arguments(pod: &PodNet) -> Map<String, Value> {
    let mut all = Map::new();
    let mut put = |name: &str, wanted: bool, value: &dyn Fn() -> Value| {
        if wanted {
            all.insert(name.into(), value());
        }
    };
    put("portMappings", !pod.ports.is_empty(), &|| ports(pod));
    let dns = &pod.dns;
    let any_dns = !(dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty());
    put(
        "dns",
        any_dns,
        &|| json!({"servers": dns.servers, "searches": dns.searches, "options": dns.options}),
    );
    put("bandwidth", pod.bandwidth.is_some(), &|| bandwidth(pod));
    put("aliases", !pod.aliases.is_empty(), &|| json!(pod.aliases));
    put("ipRanges", !pod.ip_ranges.is_empty(), &|| ranges(&pod.ip_ranges));
    put("mac", pod.mac.is_some(), &|| json!(pod.mac));
    put("ips", !pod.ips.is_empty(), &|| json!(pod.ips));
    put("io.kubernetes.cri.pod-annotations", !pod.annotations.is_empty(), &|| {
        pod.annotations.iter().cloned().map(|(k, v)| (k, Value::String(v))).collect::<Map<_, _>>().into()
    });
    all
}

fn ports(pod: &PodNet) -> Value {
    let one = |port: &crate::pod::PortMapping| {
        json!({
            "hostPort": port.host_port,
            "containerPort": port.container_port,
            "protocol": port.protocol.word(),
            "hostIP": port.host_ip.map(|ip| ip.to_string()).unwrap_or_default(),
        })
    };
    pod.ports.iter().map(one).collect()
}

fn bandwidth(pod: &PodNet) -> Value {
    pod.bandwidth.as_ref().map_or(Value::Null, |limit| {
        json!({
            "ingressRate": limit.ingress_rate,
            "ingressBurst": limit.ingress_burst,
            "egressRate": limit.egress_rate,
            "egressBurst": limit.egress_burst,
        })
    })
}

fn ranges(ranges: &[Vec<IpRange>]) -> Value {
    let one = |range: &IpRange| {
        let mut map = Map::from_iter([("subnet".to_owned(), json!(range.subnet))]);
        for (key, ip) in [("rangeStart", range.start), ("rangeEnd", range.end), ("gateway", range.gateway)] {
            if let Some(ip) = ip {
                map.insert(key.into(), json!(ip));
            }
        }
        Value::Object(map)
    };
    ranges.iter().map(|set| set.iter().map(one).collect::<Value>()).collect()
}

/// The value of CNI_ARGS: who the pod is.
pub(super) fn cni_args(pod: &PodNet) -> Result<String, CniError> {
    let mut args = "IgnoreUnknown=1".to_owned();
    for (what, key, value) in [
        ("namespace", "K8S_POD_NAMESPACE", &pod.namespace),
        ("name", "K8S_POD_NAME", &pod.name),
        ("sandbox id", "K8S_POD_INFRA_CONTAINER_ID", &pod.sandbox),
        ("uid", "K8S_POD_UID", &pod.uid),
    ] {
        // The list has no way to quote: a semicolon would add arguments of its own.
        if value.contains([';', '\0']) {
            return Err(CniError::Argument { what, value: value.clone() });
        }
        args.push_str(&format!(";{key}={value}"));
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{Bandwidth, Dns, PortMapping, Protocol};

    #[test]
    fn only_what_the_pod_asks_for_is_given() {
        assert!(arguments(&PodNet::default()).is_empty());
        let pod = PodNet {
            ports: vec![PortMapping {
                protocol: Protocol::Udp,
                host_port: 53,
                container_port: 5353,
                host_ip: "127.0.0.1".parse().ok(),
            }],
            dns: Dns { servers: vec!["10.0.0.10".into()], ..Dns::default() },
            bandwidth: Some(Bandwidth { ingress_rate: 8, ..Bandwidth::default() }),
            ip_ranges: vec![vec![IpRange { subnet: "10.0.0.0/24".into(), ..IpRange::default() }]],
            aliases: vec!["a".into()],
            ..PodNet::default()
        };
        assert_eq!(
            Value::Object(arguments(&pod)),
            json!({
                "portMappings": [{"hostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "127.0.0.1"}],
                "dns": {"servers": ["10.0.0.10"], "searches": [], "options": []},
                "bandwidth": {"ingressRate": 8, "ingressBurst": 0, "egressRate": 0, "egressBurst": 0},
                "ipRanges": [[{"subnet": "10.0.0.0/24"}]],
                "aliases": ["a"],
            })
        );
    }

    #[test]
    fn a_name_cannot_add_arguments() {
        let pod = PodNet { name: "x;K8S_POD_NAMESPACE=kube-system".into(), ..PodNet::default() };
        assert!(matches!(cni_args(&pod), Err(CniError::Argument { what: "name", .. })));
        let pod =
            PodNet { sandbox: "id".into(), name: "n".into(), namespace: "s".into(), uid: "u".into(), ..pod };
        let args =
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=s;K8S_POD_NAME=n;K8S_POD_INFRA_CONTAINER_ID=id;K8S_POD_UID=u";
        assert_eq!(cni_args(&pod).unwrap(), args);
    }
}
