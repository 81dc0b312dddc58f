//! Metrics over TLS: the real API server authenticates tokens and checks permissions, and a replaced
//! certificate is used without a restart.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use controller::settings::MetricsTls;
use e2e::certificates::Authority;
use e2e::objects::OPERATOR_NAMESPACE;
use e2e::{Scene, operator, scenario};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What a scrape with this token gets from a client that trusts one authority.
async fn scrape(address: SocketAddr, trusted: &Authority, token: Option<&str>) -> anyhow::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.certificate().as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost")?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // Who closes without a word of TLS has still answered.
    let _ = stream.read_to_end(&mut answer).await;
    Ok(String::from_utf8(answer)?)
}

/// Replaces both files as kubelet does with a mounted secret.
fn put(files: &MetricsTls, authority: &Authority) -> anyhow::Result<()> {
    let signed = authority.server()?;
    for (file, text) in [(&files.certificate, signed.certificate), (&files.key, signed.key)] {
        let beside = file.with_extension("new");
        std::fs::write(&beside, text)?;
        std::fs::rename(&beside, file)?;
    }
    Ok(())
}

/// A service account, and its token.
async fn account(scene: &Scene, name: &str) -> anyhow::Result<String> {
    let metadata = json!({"name": name, "namespace": OPERATOR_NAMESPACE});
    scene.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await?;
    let kubeconfig = operator::kubeconfig_of(scene.administrator(), name).await?;
    let kubeconfig = serde_json::to_value(&kubeconfig)?;
    Ok(kubeconfig["users"][0]["user"]["token"].as_str().context("no token")?.to_owned())
}

#[test]
fn only_who_may_reads_metrics_over_tls_and_a_new_certificate_needs_no_restart() {
    scenario(async |scene| {
        // The chart has this role.
        let reader = "slicewright-operator-metrics-reader";
        let rbac = "rbac.authorization.k8s.io";
        scene
            .apply(json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": reader},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": reader},
                "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": OPERATOR_NAMESPACE}],
            }))
            .await?;
        let (prometheus, stranger) = (account(scene, "prometheus").await?, account(scene, "stranger").await?);

        let folder = tempfile::tempdir()?;
        let files =
            MetricsTls { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        let (one, other) = (Authority::new()?, Authority::new()?);
        put(&files, &one)?;
        let served = files.clone();
        scene.operator_with(|settings| settings.metrics_tls = Some(served)).await?;
        scene.leader().await?;
        let address = scene.operators().first().context("it was started")?.metrics_address();
        for (token, says) in [
            (None, "401 Unauthorized"),
            (Some("no.such.token"), "401 Unauthorized"),
            (Some(stranger.as_str()), "403 Forbidden"),
            (Some(prometheus.as_str()), "200 OK"),
        ] {
            let answer = scrape(address, &one, token).await?;
            assert!(answer.starts_with(&format!("HTTP/1.1 {says}\r\n")), "{says}: {answer}");
            assert_eq!(answer.contains("slicewright_leader 1"), says.starts_with("200"), "{answer}");
        }
        put(&files, &other)?;
        let answer = scrape(address, &other, Some(&prometheus)).await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(scrape(address, &one, Some(&prometheus)).await.is_err(), "the old certificate is served");
        // What looks at everything once more is asked over plain HTTP.
        scene.stop_operators().await?;
        scene.operator().await
    });
}
