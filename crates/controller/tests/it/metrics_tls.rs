//! Metrics over TLS, with a real TLS client: a certificate that is replaced on disk is used without a
//! restart, and only authorised clients can read the metrics.
#![cfg(feature = "tls-rustls")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controller::Settings;
use controller::calls::Calls;
use controller::health::{Health, serve};
use controller::metrics::Metrics;
use controller::settings::MetricsTls;
use controller::tls_profile::{OldestTls, TlsProfile};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use wiremock::matchers::{body_partial_json, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A certificate for loopback, in PEM, and its key.
fn certificate() -> (String, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

/// Replaces both as kubelet does with a mounted secret: by other files.
fn put(files: &MetricsTls, (certificate, key): &(String, String)) {
    for (file, text) in [(&files.certificate, certificate), (&files.key, key)] {
        let local = file.with_extension("new");
        std::fs::write(&local, text).unwrap();
        std::fs::rename(&local, file).unwrap();
    }
}

fn files(folder: &Path) -> MetricsTls {
    MetricsTls { certificate: folder.join("tls.crt"), key: folder.join("tls.key") }
}

/// Whose certificate a server shows, and what it answers; the client trusts
/// only `trusted`.
async fn ask(
    address: SocketAddr,
    trusted: &str,
    token: Option<&str>,
) -> Result<(CertificateDer<'static>, String), std::io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // Who closes without a word of TLS has still answered.
    let _ = stream.read_to_end(&mut answer).await;
    Ok((shown, String::from_utf8(answer).unwrap()))
}

/// A server, and what stops it when it is dropped.
struct Serving {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

async fn serving(files: MetricsTls, api_server: &str) -> Result<Serving, controller::health::ServeError> {
    serving_as(files, api_server, TlsProfile::default()).await
}

async fn serving_as(
    files: MetricsTls,
    api_server: &str,
    profile: TlsProfile,
) -> Result<Serving, controller::health::ServeError> {
    let config = kube::Config::new(api_server.parse().unwrap());
    let client = controller::client::client(config).unwrap();
    let address = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut settings = Settings::new("a", "b");
    settings.metrics_address = Some(address);
    settings.metrics_tls = Some(files);
    settings.metrics_tls_profile = profile;
    let (health, metrics) = (Arc::new(Health::new(Duration::from_secs(60))), Arc::new(Metrics::new()));
    let calls = Arc::new(Calls::new(client, Duration::from_secs(5)));
    let mut tasks = JoinSet::new();
    serve(&settings, &health, &metrics, &calls, &CancellationToken::new(), &mut tasks).await?;
    Ok(Serving { address, _tasks: tasks })
}

fn is(shown: &CertificateDer<'_>, pem: &str) -> bool {
    *shown == CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_certificate_that_is_replaced_on_disk_is_served_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let (one, other) = (certificate(), certificate());
    put(&files, &one);
    let server = serving(files.clone(), "http://127.0.0.1:9").await.unwrap();
    assert!(is(&ask(server.address, &one.0, None).await.unwrap().0, &one.0));
    put(&files, &other);
    assert!(is(&ask(server.address, &other.0, None).await.unwrap().0, &other.0));
    assert!(ask(server.address, &one.0, None).await.is_err(), "the old one is no longer shown");
    // A certificate without its key, as in the middle of a replacement.
    std::fs::write(&files.key, &one.1).unwrap();
    assert!(is(&ask(server.address, &other.0, None).await.unwrap().0, &other.0));
    put(&files, &one);
    assert!(is(&ask(server.address, &one.0, None).await.unwrap().0, &one.0));
}

#[tokio::test]
async fn without_a_certificate_that_can_be_served_it_does_not_start_and_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let error = |error: controller::health::ServeError| controller::class::chain(&error);
    let said = error(serving(files.clone(), "http://127.0.0.1:9").await.err().unwrap());
    assert!(said.contains("tls.crt"), "{said}");
    put(&files, &("no certificate".to_owned(), certificate().1));
    let said = error(serving(files.clone(), "http://127.0.0.1:9").await.err().unwrap());
    assert!(said.contains("tls.crt has no certificate in PEM form"), "{said}");
    put(&files, &(certificate().0, certificate().1));
    let said = error(serving(files, "http://127.0.0.1:9").await.err().unwrap());
    assert!(said.contains("cannot be served with its key"), "{said}");
}

async fn reviews(server: &MockServer, kind: &str, asks: Value, answer: Value, times: u64) {
    Mock::given(method("POST"))
        .and(path(kind))
        .and(body_partial_json(asks))
        .respond_with(ResponseTemplate::new(201).set_body_json(answer))
        .expect(times)
        .mount(server)
        .await;
}

#[tokio::test]
async fn who_shows_no_token_or_a_wrong_one_or_may_not_reads_nothing() {
    const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
    const RIGHTS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let api = MockServer::start().await;
    let token = |token: &str, status: Value| {
        (json!({"spec": {"token": token}}), json!({"spec": {"token": token}, "status": status}))
    };
    for (name, user) in [("good", "prometheus"), ("poor", "somebody")] {
        let (asks, answer) =
            token(name, json!({"authenticated": true, "user": {"username": user, "groups": ["g"]}}));
        // Twice asked, once reviewed: the answer holds for a while.
        reviews(&api, TOKENS, asks, answer, 1).await;
        let asks = json!({"spec": {"user": user, "groups": ["g"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}});
        reviews(
            &api,
            RIGHTS,
            asks.clone(),
            json!({"spec": asks["spec"], "status": {"allowed": name == "good"}}),
            1,
        )
        .await;
    }
    let (asks, answer) = token("forged", json!({"authenticated": false, "error": "unknown"}));
    reviews(&api, TOKENS, asks, answer, 1).await;

    let folder = tempfile::tempdir().unwrap();
    let (files, own) = (files(folder.path()), certificate());
    put(&files, &own);
    let server = serving(files, &api.uri()).await.unwrap();
    for (token, says) in [
        (None, "401 Unauthorized"),
        (Some("forged"), "401 Unauthorized"),
        (Some("poor"), "403 Forbidden"),
        (Some("poor"), "403 Forbidden"),
        (Some("good"), "200 OK"),
        (Some("good"), "200 OK"),
    ] {
        let (_, answer) = ask(server.address, &own.0, token).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {says}\r\n")), "{token:?}: {answer}");
        assert_eq!(answer.contains("slicewright_leader"), says.starts_with("200"), "{token:?}: {answer}");
        assert_eq!(
            answer.contains("www-authenticate: Bearer"),
            says.starts_with("401"),
            "{token:?}: {answer}"
        );
    }
    // An API server that does not answer is no leave.
    drop(api);
    let (_, answer) = ask(server.address, &own.0, Some("another")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    // Plain HTTP is not spoken.
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("slicewright_"), "{answer:?}");
}

/// In which version and with which suite a client speaks that knows only one
/// version; nothing, where it is refused.
async fn spoken(
    address: SocketAddr,
    trusted: &str,
    version: &'static rustls::SupportedProtocolVersion,
) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let suite = stream.get_ref().1.negotiated_cipher_suite().unwrap();
    Some(format!("{:?}", suite.suite()))
}

#[tokio::test]
async fn nothing_weaker_is_spoken_than_the_profile_says() {
    use rustls::version::{TLS12, TLS13};
    let folder = tempfile::tempdir().unwrap();
    let (files, own) = (files(folder.path()), certificate());
    put(&files, &own);
    let profile = |oldest, suite: &str| TlsProfile::new(oldest, &[suite.to_owned()]).unwrap();
    for (profile, in_12, in_13) in [
        (TlsProfile::new(OldestTls::Tls13, &[]).unwrap(), None, "TLS13_AES_256_GCM_SHA384"),
        (
            profile(OldestTls::Tls12, "ECDHE-ECDSA-AES128-GCM-SHA256"),
            Some("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
            "TLS13_AES_256_GCM_SHA384",
        ),
        (profile(OldestTls::Tls12, "TLS_CHACHA20_POLY1305_SHA256"), None, "TLS13_CHACHA20_POLY1305_SHA256"),
    ] {
        let server = serving_as(files.clone(), "http://127.0.0.1:9", profile).await.unwrap();
        assert_eq!(spoken(server.address, &own.0, &TLS12).await.as_deref(), in_12);
        assert_eq!(spoken(server.address, &own.0, &TLS13).await.as_deref(), Some(in_13));
    }
}
