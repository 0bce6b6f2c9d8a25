//! Credentials of one pull, as CRI hands them over.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_core::{Classified, ErrorClass};
use std::fmt;

/// What to show a registry. Never printed: `Debug` says only which kinds are there.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct RegistryAuth {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Base64 of `user:password`; used when user name and password are empty.
    pub auth: String,
    /// Host (or URL) these credentials are for; empty: the registry in the reference.
    pub server_address: String,
    /// An OAuth2 refresh token.
    pub identity_token: String,
    /// A bearer token, sent as it is.
    pub registry_token: String,
}

/// What a request can prove, decoded.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Credential {
    /// Nothing: the registry may still hand out tokens to anybody.
    Anonymous,
    /// User name and password.
    Basic {
        /// User name.
        username: String,
        /// Password.
        password: String,
    },
    /// A refresh token for the token server.
    Identity(String),
    /// A bearer token for the registry.
    Bearer(String),
}

/// Credentials that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// `auth` is not base64 of `user:password`.
    #[error("the auth field of the credentials is not base64 of user:password")]
    Malformed,
}

impl Classified for AuthError {
    fn class(&self) -> ErrorClass {
        ErrorClass::InvalidArgument
    }
}

impl RegistryAuth {
    /// The strongest kind that was given.
    pub(crate) fn credential(&self) -> Result<Credential, AuthError> {
        if !self.registry_token.is_empty() {
            return Ok(Credential::Bearer(self.registry_token.clone()));
        }
        if !self.identity_token.is_empty() {
            return Ok(Credential::Identity(self.identity_token.clone()));
        }
        if !self.username.is_empty() || !self.password.is_empty() {
            let (username, password) = (self.username.clone(), self.password.clone());
            return Ok(Credential::Basic { username, password });
        }
        if self.auth.is_empty() {
            return Ok(Credential::Anonymous);
        }
        let bytes = STANDARD.decode(self.auth.trim()).map_err(|_| AuthError::Malformed)?;
        let text = String::from_utf8(bytes).map_err(|_| AuthError::Malformed)?;
        let (username, password) = text.split_once(':').ok_or(AuthError::Malformed)?;
        // Old Docker clients padded the password with zero bytes.
        let password = password.trim_end_matches('\0').to_owned();
        Ok(Credential::Basic { username: username.to_owned(), password })
    }

    /// The host in `server_address`, without scheme and path.
    pub(crate) fn server_host(&self) -> Option<&str> {
        let text = self.server_address.trim();
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let host = text.split('/').next().unwrap_or_default();
        (!host.is_empty()).then_some(host)
    }
}

impl fmt::Debug for RegistryAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = |text: &str| if text.is_empty() { "-" } else { "set" };
        f.debug_struct("RegistryAuth")
            .field("password", &set(&self.password))
            .field("auth", &set(&self.auth))
            .field("identity_token", &set(&self.identity_token))
            .field("registry_token", &set(&self.registry_token))
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_auth_field_is_user_and_password() {
        let auth = RegistryAuth { auth: STANDARD.encode("u:p:q"), ..RegistryAuth::default() };
        let want = Credential::Basic { username: "u".into(), password: "p:q".into() };
        assert!(auth.credential().unwrap() == want);
        let bad = RegistryAuth { auth: "!!".into(), ..RegistryAuth::default() };
        assert_eq!(bad.credential().err(), Some(AuthError::Malformed));
    }

    #[test]
    fn secrets_do_not_print() {
        let auth = RegistryAuth {
            username: "u".into(),
            password: "hunter2".into(),
            identity_token: "itok".into(),
            ..RegistryAuth::default()
        };
        let text = format!("{auth:?}");
        assert!(!text.contains("hunter2") && !text.contains("itok"), "{text}");
    }

    #[test]
    fn server_addresses_are_reduced_to_the_host() {
        let host = |text: &str| RegistryAuth { server_address: text.into(), ..RegistryAuth::default() };
        assert_eq!(host("https://index.docker.io/v1/").server_host(), Some("index.docker.io"));
        assert_eq!(host("reg:5000").server_host(), Some("reg:5000"));
        assert_eq!(host("").server_host(), None);
    }
}
