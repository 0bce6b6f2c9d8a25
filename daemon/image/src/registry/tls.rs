//! TLS configurations: whom to trust and what to show.

use super::endpoint::TlsSettings;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// Where distributions keep the system's authorities in one file.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Settings that make no usable configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file holds no certificate.
    #[error("a ca file holds no PEM certificate")]
    NoCa,
    /// A client certificate or its key cannot be used.
    #[error("a client certificate cannot be used: {0}")]
    Client(String),
    /// rustls refused.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// The configuration for `settings`.
///
/// # Errors
/// Bad certificates.
pub fn config(settings: &TlsSettings) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = if settings.skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAll(provider)))
    } else {
        builder.with_root_certificates(roots(&settings.ca)?)
    };
    let Some((chain, key)) = settings.client.first() else { return Ok(builder.with_no_client_auth()) };
    let client = |error: String| TlsError::Client(error);
    let certs: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| client(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| client(error.to_string()))?;
    builder.with_client_auth_cert(certs, key).map_err(|error| client(error.to_string()))
}

fn roots(more: &[Vec<u8>]) -> Result<RootCertStore, TlsError> {
    let mut store = system_roots().clone();
    for pem in more {
        let mut any = false;
        for cert in CertificateDer::pem_slice_iter(pem).flatten() {
            store.add(cert)?;
            any = true;
        }
        if !any {
            return Err(TlsError::NoCa);
        }
    }
    Ok(store)
}

/// The system's authorities, read once; the web's own list where the system has none.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut store = RootCertStore::empty();
        let asked = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
        for path in asked.into_iter().chain(BUNDLES.map(Into::into)) {
            if let Ok(pem) = std::fs::read(path) {
                store.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten());
                break;
            }
        }
        if store.is_empty() {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        store
    })
}

/// For `skip_verify`: any certificate will do, but the handshake must still be made with its key.
#[derive(Debug)]
struct AcceptAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
