//! A certificate authority for one control plane, and its certificates: that of a server on loopback, and
//! those that identify clients.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// The authority of one control plane.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name = name("slicewright e2e", None);
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Its certificate, which everybody trusts.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// For a server on loopback, which etcd also uses as a client of itself.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn server(&self) -> Result<Signed, rcgen::Error> {
        let names = ["localhost", "127.0.0.1", "kubernetes.default.svc"].map(str::to_owned);
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = name("loopback", None);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// For a client that is this user, in this group.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Signed, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = name(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Signed, rcgen::Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Signed { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn name(common: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name
}

/// The keys with which service account tokens are signed and checked:
/// private, public.
///
/// # Errors
/// When no key can be made.
pub fn token_keys() -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}
