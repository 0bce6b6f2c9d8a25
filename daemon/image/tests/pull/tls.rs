//! Registries behind TLS: private authorities, client certificates, no verification.

use crate::image::Image;
use crate::node::{Node, text};
use crate::registry::{Answer, Registry};
use crate::tar::Tar;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_core::{Classified, ErrorClass};
use berth_image::RegistryAuth;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;

struct Authority(CertifiedIssuer<'static, KeyPair>);

struct Certificate {
    der: CertificateDer<'static>,
    key: KeyPair,
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        pem("CERTIFICATE", self.0.der())
    }

    fn issue(&self, name: &str) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        Certificate { der: params.signed_by(&key, &self.0).unwrap().der().clone(), key }
    }

    /// A server that shows a certificate of this authority, and asks for one of `clients`.
    fn server(&self, name: &str, clients: Option<&Self>) -> ServerConfig {
        let own = self.issue(name);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(own.key.serialize_der()).unwrap();
        builder.with_single_cert(vec![own.der], key).unwrap()
    }
}

fn push(registry: &Registry) {
    Image::new(vec![Tar::new().file("f", "x").end()]).push(registry, "a", "1");
}

/// `r.invalid` is served by this registry, with these further lines.
fn hosts(node: &Node, registry: &Registry, lines: &str) {
    let host = registry.host();
    node.hosts("r.invalid", &format!("server = \"https://{host}\"\n[host.\"https://{host}\"]\n{lines}\n"));
}

fn write(node: &Node, name: &str, text: &str) {
    let dir = node.dir.path().join("certs.d/r.invalid");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(name), text).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_authority_must_be_named() {
    let authority = Authority::new();
    let registry = Registry::start_tls(authority.server("127.0.0.1", None)).await;
    push(&registry);
    let node = Node::new();
    hosts(&node, &registry, "");
    let error = node.pull("r.invalid/a:1").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    assert!(text(&error).contains("certificate"), "{}", text(&error));
    write(&node, "ca.pem", &authority.pem());
    hosts(&node, &registry, "ca = \"ca.pem\"");
    node.pull("r.invalid/a:1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_host_is_refused_unless_nothing_is_verified() {
    let authority = Authority::new();
    let registry = Registry::start_tls(authority.server("other.invalid", None)).await;
    push(&registry);
    let node = Node::new();
    write(&node, "ca.pem", &authority.pem());
    hosts(&node, &registry, "ca = \"ca.pem\"");
    let error = node.pull("r.invalid/a:1").await.unwrap_err();
    assert!(text(&error).contains("certificate"), "{}", text(&error));
    hosts(&node, &registry, "skip_verify = true");
    node.pull("r.invalid/a:1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_shown_to_whom_it_is_for() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let registry = Registry::start_tls(authority.server("127.0.0.1", Some(&clients))).await;
    push(&registry);
    let node = Node::new();
    write(&node, "ca.pem", &authority.pem());
    hosts(&node, &registry, "ca = \"ca.pem\"");
    node.pull("r.invalid/a:1").await.unwrap_err();
    for (issuer, good) in [(&authority, false), (&clients, true)] {
        let own = issuer.issue("node");
        write(&node, "client.pem", &pem("CERTIFICATE", &own.der));
        write(&node, "client.key", &pem("PRIVATE KEY", &own.key.serialize_der()));
        hosts(&node, &registry, "ca = \"ca.pem\"\nclient = [[\"client.pem\", \"client.key\"]]");
        let pulled = node.pull("r.invalid/a:1").await;
        assert_eq!(pulled.is_ok(), good, "{:?}", pulled.err().map(|error| text(&error)));
    }
}

/// The registry says who hands out tokens. On another host that server is checked even where the registry is not, and
/// sees no client certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skip_verify_does_not_reach_a_token_server_elsewhere() {
    let authority = Authority::new();
    let registry = Registry::start_tls(authority.server("127.0.0.1", None)).await;
    let tokens = Registry::start_tls(authority.server("localhost", None)).await;
    push(&registry);
    tokens.quirk(|_, _| Some(Answer::new(200, r#"{"token":"t0k"}"#)));
    let port = tokens.host().rsplit_once(':').unwrap().1.to_owned();
    let challenge = format!("Bearer realm=\"https://localhost:{port}/token\",service=\"s\"");
    registry.quirk(move |seen, _| {
        (seen.header("authorization") != Some("Bearer t0k"))
            .then(|| Answer::new(401, "").header("www-authenticate", &challenge))
    });
    let node = Node::new();
    hosts(&node, &registry, "skip_verify = true");
    let user = RegistryAuth { username: "u".into(), password: "p".into(), ..RegistryAuth::default() };
    let error = node.pull_as("r.invalid/a:1", user.clone()).await.unwrap_err();
    assert!(text(&error).contains("token server"), "{}", text(&error));
    assert!(tokens.log().is_empty());
    write(&node, "ca.pem", &authority.pem());
    hosts(&node, &registry, "skip_verify = true\nca = \"ca.pem\"");
    node.pull_as("r.invalid/a:1", user).await.unwrap();
}
