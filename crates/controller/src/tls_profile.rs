//! The TLS level of the metrics: the minimum version and the cipher suites, in the terms of OpenShift's TLS
//! security profiles, so that the output of `oc get apiserver cluster -o yaml` can be copied as it is. The
//! operator does not read that object (docs/adr/0007): the chart sets the level.

use std::str::FromStr;

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldestTls {
    /// TLS 1.2, and with it what profiles call `VersionTLS10` and
    /// `VersionTLS11`: nothing older is ever spoken.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl FromStr for OldestTls {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            _ => Err("write VersionTLS12 or VersionTLS13".to_owned()),
        }
    }
}

/// The suites that can be served: the name of IANA, and that of OpenSSL, which
/// OpenShift's profiles use.
pub const SUITES: [(&str, &str); 9] = [
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
];

/// The first of [`SUITES`], which are those of TLS 1.3.
const OF_13: usize = 3;

/// The oldest version, and the suites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsProfile {
    /// The oldest version that is spoken.
    pub oldest: OldestTls,
    /// The suites that are spoken, by IANA's names; empty: all of [`SUITES`].
    pub suites: Vec<&'static str>,
    /// What was named and cannot be served: it is left out.
    pub left_out: Vec<String>,
}

/// Suites of which none can be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "none of the cipher suites {given} can be served; name some of {}",
    SUITES.map(|(iana, _)| iana).join(", ")
)]
pub struct NoSuite {
    given: String,
}

impl TlsProfile {
    /// A profile from names of suites, IANA's or OpenSSL's.
    ///
    /// Profiles list more than anybody serves, so what cannot be served is left
    /// out. Those of TLS 1.3 are left out only by who names one of them, as in
    /// every library that has them apart from the others.
    ///
    /// # Errors
    /// When none is left.
    pub fn new(oldest: OldestTls, given: &[String]) -> Result<Self, NoSuite> {
        if given.is_empty() {
            return Ok(Self { oldest, ..Self::default() });
        }
        let names =
            |named: &String| SUITES.iter().position(|(iana, openssl)| named == iana || named == openssl);
        let left_out: Vec<String> = given.iter().filter(|name| names(name).is_none()).cloned().collect();
        let mut found: Vec<usize> = given.iter().filter_map(names).collect();
        if found.iter().any(|at| *at >= OF_13) && found.iter().all(|at| *at >= OF_13) {
            found.extend(0..OF_13);
        }
        if oldest == OldestTls::Tls13 {
            found.retain(|at| *at < OF_13);
        }
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            return Err(NoSuite { given: given.join(",") });
        }
        let suites = found.into_iter().map(|at| SUITES[at].0).collect();
        Ok(Self { oldest, suites, left_out })
    }

    /// Whether a suite may be spoken, by its name in IANA's list.
    #[must_use]
    pub fn allows(&self, iana: &str) -> bool {
        self.suites.is_empty() || self.suites.contains(&iana)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(oldest: OldestTls, given: &str) -> Result<TlsProfile, NoSuite> {
        let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
        TlsProfile::new(oldest, &given)
    }

    #[test]
    fn openshifts_profile_intermediate_is_taken_as_it_is() {
        let intermediate = "TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256 \
            ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-RSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 \
            ECDHE-RSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-RSA-CHACHA20-POLY1305 \
            DHE-RSA-AES128-GCM-SHA256 DHE-RSA-AES256-GCM-SHA384";
        let profile = profile("VersionTLS12".parse().unwrap(), intermediate).unwrap();
        assert_eq!(profile.suites, SUITES.map(|(iana, _)| iana));
        assert_eq!(profile.left_out, ["DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-GCM-SHA384"]);
    }

    #[test]
    fn one_suite_of_an_older_version_leaves_those_of_the_newest() {
        let found = profile(OldestTls::Tls12, "ECDHE-RSA-AES256-GCM-SHA384").unwrap();
        assert!(found.allows("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"));
        assert!(found.allows("TLS_AES_128_GCM_SHA256"));
        assert!(!found.allows("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"));
        let found = profile(OldestTls::Tls13, "TLS_AES_256_GCM_SHA384 ECDHE-RSA-AES256-GCM-SHA384").unwrap();
        assert_eq!(found.suites, ["TLS_AES_256_GCM_SHA384"]);
    }

    #[test]
    fn suites_of_which_none_can_be_served_are_refused_with_those_that_can() {
        let error = profile(OldestTls::Tls12, "DES-CBC3-SHA AES128-SHA").unwrap_err().to_string();
        assert!(
            error.starts_with("none of the cipher suites DES-CBC3-SHA,AES128-SHA can be served"),
            "{error}"
        );
        assert!(error.contains("TLS_AES_128_GCM_SHA256"), "{error}");
        assert_eq!("TLS1.2".parse::<OldestTls>().unwrap_err(), "write VersionTLS12 or VersionTLS13");
    }
}
