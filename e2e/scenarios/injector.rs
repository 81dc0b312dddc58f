//! OpenShift AI's webhooks by the rules of one release: odh-notebook-controller's, which locks a new workbench
//! (`workbenches::admission`), and after it those for hardware profiles (`workbenches::profile`). The API server asks
//! them, as one, whenever a Notebook or a model server is written, and stores what they say.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use api::foreign::HardwareProfile;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::routing::post;
use e2e::by_url::ByUrl;
use e2e::profile_webhook::is_asked;
use e2e::{Scene, objects};
use k8s_openapi::ByteString;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use workbenches::admission::admit;
use workbenches::profile::{Refused, Rules, Workload, of_release, review};

use crate::menu::APPLICATIONS;

const PATH: &str = "/mutate-hardware-profile";
const NAME: &str = "hardwareprofile-notebook-injector.opendatahub.io";
/// The image of the proxy beside a workbench.
const PROXY: &str = "registry.example/proxy:1";

/// The webhook, while it is asked.
pub(crate) struct Injector {
    server: JoinHandle<()>,
    /// With its certificate.
    _folder: TempDir,
}

impl Injector {
    /// OpenShift AI of this release, as far as its webhook goes.
    pub(crate) async fn of_release(scene: &Scene, release: &str) -> anyhow::Result<Self> {
        let rules = of_release(release).context("there are rules of that release")?;
        let folder = TempDir::new()?;
        let reached = ByUrl::new(folder.path())?;
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, reached.port))).await?;
        let secured = Secured { listener, acceptor: acceptor(&reached)? };
        let app = Router::new().route(PATH, post(answer)).with_state((scene.client(), rules));
        let server = tokio::spawn(async move {
            // It ends with the scenario.
            let _ = axum::serve(secured, app).await;
        });
        scene.apply(configuration(&reached)).await?;
        is_asked(&scene.client(), true).await?;
        Ok(Self { server, _folder: folder })
    }

    /// It is not asked any more.
    pub(crate) async fn ends(self, scene: &Scene) -> anyhow::Result<()> {
        scene.delete(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME}}))
            .await?;
        is_asked(&scene.client(), false).await?;
        self.server.abort();
        Ok(())
    }
}

fn configuration(reached: &ByUrl) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [{
            "name": NAME, "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 5,
            "admissionReviewVersions": ["v1"], "clientConfig": reached.client_config(PATH),
            "rules": [
                asked_of("kubeflow.org", "v1", "notebooks"),
                asked_of("serving.kserve.io", "v1beta1", "inferenceservices"),
                asked_of("serving.kserve.io", "v1alpha1", "llminferenceservices"),
            ],
        }],
    })
}

fn asked_of(group: &str, version: &str, resources: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": [version], "resources": [resources],
        "operations": ["CREATE", "UPDATE"]})
}

fn acceptor(reached: &ByUrl) -> anyhow::Result<TlsAcceptor> {
    let certificates = CertificateDer::pem_file_iter(reached.certificates.join("tls.crt"))?;
    let key = PrivateKeyDer::from_pem_file(reached.certificates.join("tls.key"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates.collect::<Result<_, _>>()?, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Connections with TLS.
struct Secured {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else { continue };
            // Who does not want to speak with it comes again.
            if let Ok(secured) = self.acceptor.accept(stream).await {
                return (secured, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

type Answer = (StatusCode, [(HeaderName, &'static str); 1], String);

async fn answer(State((client, rules)): State<(Client, &'static Rules)>, body: Bytes) -> Answer {
    let (code, text) = match reviewed(&client, rules, &body).await {
        Ok(answer) => (StatusCode::OK, answer.to_string()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")),
    };
    (code, [(CONTENT_TYPE, "application/json")], text)
}

async fn reviewed(client: &Client, rules: &Rules, body: &[u8]) -> anyhow::Result<Value> {
    let asked: Value = serde_json::from_slice(body)?;
    let request = &asked["request"];
    let mut profiles = Vec::new();
    let like = json!({"apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile"});
    let (_, resource) = objects::api_of(client, &like).await?;
    let everywhere: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    for object in everywhere.list(&ListParams::default()).await? {
        let name = (object.namespace().unwrap_or_default(), object.name_any());
        profiles.push((name, serde_json::from_value::<HardwareProfile>(serde_json::to_value(object)?)?));
    }
    let find = |namespace: &str, name: &str| {
        let found = profiles.iter().find(|((of, called), _)| of == namespace && called == name);
        found.map(|(_, profile)| profile.clone())
    };
    let before = Some(&request["oldObject"]).filter(|before| before.is_object());
    let kind = request["kind"]["kind"].as_str().unwrap_or_default();
    let workload = Workload::of_kind(kind).with_context(|| format!("nobody asked for {kind}"))?;
    let written = request["object"].clone();
    let written = if workload == Workload::Notebook { admit(written, before, PROXY) } else { written };
    let response = match review(rules, workload, written, before, find) {
        Err(Refused(why)) => {
            json!({"uid": request["uid"], "allowed": false, "status": {"code": 400, "message": why}})
        }
        Ok(made) => {
            let patch =
                ["/metadata/annotations", "/metadata/labels", "/spec"].into_iter().filter_map(|path| {
                    let value = made.object.pointer(path)?;
                    let has_changed = request["object"].pointer(path) != Some(value);
                    has_changed.then(|| json!({"op": "add", "path": path, "value": value}))
                });
            let patch: Vec<Value> = patch.collect();
            json!({"uid": request["uid"], "allowed": true, "warnings": made.warnings,
                "patchType": "JSONPatch", "patch": ByteString(json!(patch).to_string().into_bytes())})
        }
    };
    Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// A profile with one slice, and with CPU and memory for it.
pub(crate) fn profile_with(name: &str, resource: &str) -> Value {
    let identifier = |identifier: &str, count: Value| {
        json!({"displayName": identifier, "identifier": identifier, "minCount": count, "defaultCount": count,
            "maxCount": count})
    };
    json!({
        "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"name": name, "namespace": APPLICATIONS},
        "spec": {"identifiers": [
            identifier("cpu", json!(1)), identifier("memory", json!("2Gi")), identifier(resource, json!(1))]},
    })
}
