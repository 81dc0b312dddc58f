//! HTTPS for the metrics, with a certificate from files. The issuer (OpenShift's service CA, cert-manager)
//! replaces the files when it renews the certificate; they are checked before each connection, so that
//! neither a restart nor a timer is needed. If the files are invalid, as in the middle of a replacement,
//! the previous certificate stays in use.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::serve::Listener;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ServerConfig, SupportedProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::settings::MetricsTls;
use crate::tls_profile::{OldestTls, SUITES, TlsProfile};

/// How long a handshake may take: who connects and says nothing holds up nobody.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many handshakes are under way at once; more wait in the kernel's queue.
const AT_ONCE: usize = 32;

/// A certificate that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("failed to read {file}")]
    Read {
        /// Which.
        file: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{file} has no {what} in PEM form")]
    Pem {
        /// Which.
        file: PathBuf,
        /// What it should have.
        what: &'static str,
    },
    /// The two do not belong together, or cannot be used.
    #[error("the certificate in {file} cannot be served with its key")]
    Unusable {
        /// The certificate's file.
        file: PathBuf,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
}

/// What a file was like when it was looked at: a mounted secret is replaced as
/// a whole, by another file.
type Stamp = Option<[(u64, i64, i64, u64); 2]>;

/// The certificate that is served now.
#[derive(Debug)]
struct Served {
    files: MetricsTls,
    provider: Arc<CryptoProvider>,
    seen: Mutex<Stamp>,
    now: RwLock<Arc<CertifiedKey>>,
}

async fn read(file: &Path) -> Result<Vec<u8>, CertificateError> {
    tokio::fs::read(file).await.map_err(|source| CertificateError::Read { file: file.to_owned(), source })
}

async fn load(files: &MetricsTls, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
    let MetricsTls { certificate, key } = files;
    let (chain, private) = (read(certificate).await?, read(key).await?);
    let lacks = |file: &Path, what| CertificateError::Pem { file: file.to_owned(), what };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|_| lacks(certificate, "certificate"))?;
    if chain.is_empty() {
        return Err(lacks(certificate, "certificate"));
    }
    let private = PrivateKeyDer::from_pem_slice(&private).map_err(|_| lacks(key, "private key"))?;
    let unusable = |source| CertificateError::Unusable { file: certificate.clone(), source };
    CertifiedKey::from_der(chain, private, provider).map_err(unusable)
}

async fn stamp(files: &MetricsTls) -> Stamp {
    let mut stamps = [(0, 0, 0, 0); 2];
    for (file, stamp) in [&files.certificate, &files.key].into_iter().zip(&mut stamps) {
        let meta = tokio::fs::metadata(file).await.ok()?;
        *stamp = one_stamp(&meta);
    }
    Some(stamps)
}

#[cfg(unix)]
fn one_stamp(meta: &std::fs::Metadata) -> (u64, i64, i64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len())
}

/// The operator runs on Linux; the command, which shares this crate, is built for Windows too.
#[cfg(not(unix))]
fn one_stamp(meta: &std::fs::Metadata) -> (u64, i64, i64, u64) {
    let modified = meta.modified().ok().and_then(|at| jiff::Timestamp::try_from(at).ok()).unwrap_or_default();
    (0, modified.as_second(), modified.subsec_nanosecond().into(), meta.len())
}

impl Served {
    /// Looks whether the files are others than before, and serves those.
    async fn refresh(&self) {
        let found = stamp(&self.files).await;
        let changed = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *seen, found) != found
        };
        if !changed {
            return;
        }
        match load(&self.files, &self.provider).await {
            Ok(key) => {
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                tracing::info!("the certificate of the metrics was replaced");
            }
            Err(error) => {
                let error = crate::class::chain(&error);
                tracing::warn!(
                    error,
                    "the new certificate of the metrics cannot be used; the previous one stays in use"
                );
            }
        }
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The name of a suite in IANA's list; rustls has its own for those of TLS 1.3.
fn iana(suite: CipherSuite) -> &'static str {
    let ours = suite.as_str().unwrap_or_default();
    let named = |iana: &&str| ours == *iana || ours.strip_prefix("TLS13") == iana.strip_prefix("TLS");
    SUITES.iter().map(|(iana, _)| *iana).find(named).unwrap_or(ours)
}

/// Takes connections and speaks TLS on them.
pub struct TlsListener {
    listener: TcpListener,
    served: Arc<Served>,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    /// Speaks TLS with the certificate of these files, and no weaker than the
    /// profile says.
    ///
    /// # Errors
    /// When there is none that can be served.
    pub async fn new(
        listener: TcpListener,
        files: &MetricsTls,
        profile: &TlsProfile,
    ) -> Result<Self, CertificateError> {
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites.retain(|suite| profile.allows(iana(suite.suite())));
        let provider = Arc::new(provider);
        if !profile.left_out.is_empty() {
            let suites = profile.left_out.join(",");
            tracing::warn!(suites, "unsupported cipher suites of the metrics are skipped");
        }
        let versions: &[&SupportedProtocolVersion] = match profile.oldest {
            OldestTls::Tls12 => &[&TLS12, &TLS13],
            OldestTls::Tls13 => &[&TLS13],
        };
        // Looked at first: what changes meanwhile is seen as a change.
        let seen = Mutex::new(stamp(files).await);
        let now = RwLock::new(Arc::new(load(files, &provider).await?));
        let served = Arc::new(Served { files: files.clone(), provider: Arc::clone(&provider), seen, now });
        let unusable = |source| CertificateError::Unusable { file: files.certificate.clone(), source };
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&served) as Arc<dyn ResolvesServerCert>);
        Ok(Self {
            listener,
            served,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            handshakes: JoinSet::new(),
        })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let room = self.handshakes.len() < AT_ONCE;
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(ready)) = done {
                        return ready;
                    }
                }
                (stream, address) = Listener::accept(&mut self.listener), if room => {
                    self.served.refresh().await;
                    let acceptor = self.acceptor.clone();
                    self.handshakes.spawn(async move {
                        let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
                        Some((shaken.ok()?.ok()?, address))
                    });
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
