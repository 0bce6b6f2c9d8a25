//! Who is told which secret.

use crate::image::Image;
use crate::node::{Node, text};
use crate::registry::{Answer, Registry};
use crate::tar::Tar;
use berth_core::{Classified, ErrorClass};
use berth_image::RegistryAuth;

fn user(password: &str) -> RegistryAuth {
    RegistryAuth { username: "u".into(), password: password.into(), ..RegistryAuth::default() }
}

async fn pushed() -> Registry {
    let registry = Registry::start().await;
    Image::new(vec![Tar::new().file("f", "x").end()]).push(&registry, "a", "1");
    registry
}

const BASIC: &str = "Basic dTpw";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn basic_authentication_is_answered() {
    let (registry, node) = (pushed().await, Node::new());
    registry.quirk(|seen, _| match seen.header("authorization") {
        Some(BASIC) => None,
        _ => Some(Answer::new(401, "").header("www-authenticate", "Basic realm=\"r\"")),
    });
    let name = format!("{}/a:1", registry.host());
    let error = node.pull(&name).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unauthenticated, "{}", text(&error));
    let error = node.pull_as(&name, user("wrong")).await.unwrap_err();
    assert!(!text(&error).contains("wrong"));
    node.pull_as(&name, user("p")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_come_from_the_challenge_of_the_request() {
    // No scope in the challenge, access_token instead of token, no expiry.
    let (registry, node) = (pushed().await, Node::new());
    let host = registry.host();
    registry.quirk(move |seen, _| {
        if seen.path == "/token" {
            return Some(Answer::new(200, r#"{"access_token":"t0k"}"#));
        }
        let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"s\"");
        (seen.header("authorization") != Some("Bearer t0k"))
            .then(|| Answer::new(401, "").header("www-authenticate", &challenge))
    });
    node.pull_as(&format!("{}/a:1", registry.host()), user("p")).await.unwrap();
    let log = registry.log();
    let token: Vec<_> = log.iter().filter(|seen| seen.path == "/token").collect();
    assert_eq!(token.len(), 1, "one token serves the whole pull");
    assert!(token[0].query.contains("scope=repository%3Aa%3Apull") && token[0].query.contains("service=s"));
    assert_eq!(token[0].header("authorization"), Some(BASIC));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_tokens_are_exchanged_and_registry_tokens_sent() {
    let (registry, node) = (pushed().await, Node::new());
    let host = registry.host();
    registry.quirk(move |seen, _| {
        if seen.path == "/token" {
            let good =
                seen.body.contains("grant_type=refresh_token") && seen.body.contains("refresh_token=idt");
            return Some(Answer::new(if good { 200 } else { 400 }, r#"{"access_token":"t0k"}"#));
        }
        let challenge = format!("Bearer realm=\"http://{host}/token\",scope=\"repository:a:pull\"");
        (seen.header("authorization") != Some("Bearer t0k"))
            .then(|| Answer::new(401, "").header("www-authenticate", &challenge))
    });
    let name = format!("{}/a:1", registry.host());
    let identity = RegistryAuth { identity_token: "idt".into(), ..RegistryAuth::default() };
    node.pull_as(&name, identity).await.unwrap();
    let before = registry.count("/token");
    let token = RegistryAuth { registry_token: "t0k".into(), ..RegistryAuth::default() };
    node.pull_as(&name, token).await.unwrap();
    assert_eq!(registry.count("/token"), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_to_another_host_takes_no_secret_along() {
    let (registry, elsewhere, node) = (pushed().await, Registry::start().await, Node::new());
    let (target, source) = (elsewhere.host(), registry.clone());
    elsewhere.quirk(move |seen, _| {
        let path = seen.path.strip_prefix("/cdn")?;
        Some(Answer::new(200, source.content(path)))
    });
    registry.quirk(move |seen, _| {
        if seen.header("authorization") != Some(BASIC) {
            return Some(Answer::new(401, "").header("www-authenticate", "Basic realm=\"r\""));
        }
        let location = format!("http://{target}/cdn{}?signature=secret", seen.path);
        seen.path.contains("/blobs/").then(|| Answer::new(307, "").header("location", &location))
    });
    node.hosts(
        &registry.host(),
        &format!("server = \"http://{0}\"\n[header]\nx-secret = \"s\"\n", registry.host()),
    );
    node.pull_as(&format!("{}/a:1", registry.host()), user("p")).await.unwrap();
    assert_eq!(elsewhere.log().len(), 2);
    assert!(
        elsewhere
            .log()
            .iter()
            .all(|seen| seen.header("authorization").is_none() && seen.header("x-secret").is_none())
    );
    assert!(registry.log().iter().all(|seen| seen.header("x-secret") == Some("s")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_get_no_credentials_unless_these_name_them() {
    let (registry, node) = (pushed().await, Node::new());
    registry.quirk(|seen, _| match seen.header("authorization") {
        Some(BASIC) => None,
        _ => Some(Answer::new(401, "").header("www-authenticate", "Basic realm=\"r\"")),
    });
    node.hosts(
        "r.invalid",
        &format!("server = \"http://127.0.0.1:1\"\n[host.\"http://{}\"]\n", registry.host()),
    );
    assert!(node.pull_as("r.invalid/a:1", user("p")).await.is_err());
    assert!(registry.log().iter().all(|seen| seen.header("authorization").is_none()));
    let named = RegistryAuth { server_address: format!("http://{}", registry.host()), ..user("p") };
    node.pull_as("r.invalid/a:1", named).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_server_cannot_send_a_refresh_token_elsewhere() {
    let (registry, elsewhere, node) = (pushed().await, Registry::start().await, Node::new());
    let (host, target) = (registry.host(), elsewhere.host());
    registry.quirk(move |seen, _| {
        if seen.path == "/token" {
            let location = format!("http://{target}/token");
            return Some(Answer::new(307, "").header("location", &location));
        }
        let challenge = format!("Bearer realm=\"http://{host}/token\"");
        Some(Answer::new(401, "").header("www-authenticate", &challenge))
    });
    let identity = RegistryAuth { identity_token: "idt".into(), ..RegistryAuth::default() };
    let error = node.pull_as(&format!("{}/a:1", registry.host()), identity).await.unwrap_err();
    assert!(text(&error).contains("redirect"), "{}", text(&error));
    assert!(elsewhere.log().is_empty());
}
