//! How the API server reaches the webhooks of a program that runs beside the control plane: by URL, on
//! loopback, with a certificate of an authority of its own. In a cluster it is a Service.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::certificates::Authority;
use crate::{objects, ports};

/// Where one program's webhooks are reached.
pub struct ByUrl {
    /// The port on which it has to serve.
    pub port: u16,
    /// The folder with its certificate, `tls.crt` and `tls.key`.
    pub certificates: PathBuf,
    authority: ByteString,
}

impl ByUrl {
    /// A free port, and a certificate in a folder below this one.
    ///
    /// # Errors
    /// When there is no port, or the certificate cannot be made or written.
    pub fn new(folder: &Path) -> anyhow::Result<Self> {
        let authority = Authority::new()?;
        let server = authority.server()?;
        let certificates = folder.join("certificates");
        fs::create_dir_all(&certificates)?;
        fs::write(certificates.join("tls.crt"), &server.certificate)?;
        fs::write(certificates.join("tls.key"), &server.key)?;
        let port = ports::free().context("no port is free")?;
        Ok(Self { port, certificates, authority: ByteString(authority.certificate().into_bytes()) })
    }

    /// A `clientConfig` for this path.
    #[must_use]
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.authority})
    }

    /// The webhook configurations of a published manifest, as its own
    /// installation changes them: with a name of the program's own before
    /// theirs, which all programs of the same scaffold share, and `change`
    /// for each webhook. It returns whether the webhook is wanted.
    ///
    /// # Errors
    /// When the manifest cannot be read.
    pub fn webhooks(
        &self,
        program: &str,
        manifest: &Path,
        change: impl Fn(&mut Value) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        let text =
            fs::read_to_string(manifest).with_context(|| format!("the webhooks of {program} are missing"))?;
        let mut configurations = objects::documents(&text)?;
        for configuration in &mut configurations {
            let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
            configuration["metadata"]["name"] = json!(format!("{program}-{name}"));
            let Some(webhooks) = configuration["webhooks"].as_array_mut() else { continue };
            webhooks.retain_mut(&change);
            for webhook in webhooks {
                let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default().to_owned();
                webhook["clientConfig"] = self.client_config(&path);
            }
        }
        Ok(configurations)
    }
}
