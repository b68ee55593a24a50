//! Looking into TLS: an authority for one run, certificates in its name, and the other half towards the server.
//!
//! The key of the authority is in memory only and ends with the run. What the target trusts is told by
//! [`Interception::bundle`]; the proxy itself trusts what it was given and never that authority.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::host::Host;

/// The most certificates that are kept.
const LEAVES_MAX: usize = 256;

/// Longer than any run; and a clock that is behind by a day does no harm.
const AUTHORITY_LIFE: Duration = Duration::from_hours(24 * 365);
const LEAF_LIFE: Duration = Duration::from_hours(24 * 30);
const SLACK: Duration = Duration::from_hours(24);

/// Where systems keep the certificates they trust, all in one file.
pub const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Where they keep those that an administrator added, one in a file.
pub const SYSTEM_DIRECTORIES: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// Certificates that this host trusts.
#[derive(Clone, Debug, Default)]
pub struct Roots(Vec<CertificateDer<'static>>);

impl Roots {
    /// Those of this system: the first file that is there, and what directories have besides.
    #[must_use]
    pub fn of_system() -> Self {
        let mut roots = Self::default();
        for file in SYSTEM_FILES {
            if roots.add_file(Path::new(file)) {
                break;
            }
        }
        for directory in SYSTEM_DIRECTORIES {
            let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                // Links by hash lead to the same files; the large ones are what was read above.
                .filter(|path| path.extension().is_some_and(|end| end == "pem" || end == "crt"))
                .filter(|path| path.metadata().is_ok_and(|data| data.is_file() && data.len() < 64 * 1024))
                .collect();
            files.sort();
            for file in files {
                roots.add_file(&file);
            }
        }
        roots
    }

    /// Adds those of a file; whether there were any.
    pub fn add_file(&mut self, path: &Path) -> bool {
        let Ok(text) = std::fs::read(path) else { return false };
        let before = self.0.len();
        for certificate in CertificateDer::pem_slice_iter(&text).flatten() {
            self.0.push(certificate);
        }
        let found = self.0.len() > before;
        self.0.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
        self.0.dedup();
        found
    }

    /// Adds one.
    pub fn add(&mut self, certificate: CertificateDer<'static>) {
        self.0.push(certificate);
    }
}

/// An authority of one run, and what it made so far.
pub struct Interception {
    issuer: Issuer<'static, KeyPair>,
    leaf_key: KeyPair,
    leaves: Mutex<HashMap<Host, Arc<ServerConfig>>>,
    client: Arc<ClientConfig>,
    bundle: String,
    authority: String,
}

impl fmt::Debug for Interception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interception")
    }
}

/// Why an authority cannot be made.
#[derive(Debug)]
pub struct NoAuthority(String);

impl fmt::Display for NoAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoAuthority {}

fn made<T, E: fmt::Display>(result: Result<T, E>) -> Result<T, NoAuthority> {
    result.map_err(|error| NoAuthority(error.to_string()))
}

impl Interception {
    /// A new authority. Servers are verified against `roots` alone.
    pub fn new(roots: &Roots) -> Result<Self, NoAuthority> {
        let mut store = RootCertStore::empty();
        // Some systems keep certificates that no verifier understands.
        let (_kept, _odd) = store.add_parsable_certificates(roots.0.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = made(ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions())?
            .with_root_certificates(store)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"http/1.1".to_vec()];

        let key = made(KeyPair::generate())?;
        let mut params = made(CertificateParams::new(Vec::new()))?;
        // Its name is new with each run: programs that keep certificates must not take one for the other.
        let number =
            key.public_key_raw().iter().rev().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        params.distinguished_name.push(DnType::CommonName, format!("sandbox-run, one run ({number})"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (SystemTime::now() - SLACK).into();
        params.not_after = (SystemTime::now() + AUTHORITY_LIFE).into();
        let certificate = made(params.self_signed(&key))?;
        let authority = pem(certificate.der());
        let bundle = roots.0.iter().map(|root| pem(root)).chain([authority.clone()]).collect();
        Ok(Self {
            issuer: Issuer::new(params, key),
            leaf_key: made(KeyPair::generate())?,
            leaves: Mutex::default(),
            client: Arc::new(client),
            bundle,
            authority,
        })
    }

    /// All that the target is to trust, as PEM: what this host trusts, and the authority.
    #[must_use]
    pub fn bundle(&self) -> &str {
        &self.bundle
    }

    /// The authority alone, as PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A server of TLS that is taken for `host`.
    pub(super) fn server(&self, host: &Host) -> Result<ServerConnection, NoAuthority> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        let config = if let Some(config) = leaves.get(host) {
            Arc::clone(config)
        } else {
            if leaves.len() >= LEAVES_MAX {
                leaves.clear();
            }
            let config = Arc::new(self.leaf(host)?);
            leaves.insert(host.clone(), Arc::clone(&config));
            config
        };
        made(ServerConnection::new(config))
    }

    fn leaf(&self, host: &Host) -> Result<ServerConfig, NoAuthority> {
        let mut params = made(CertificateParams::new(Vec::new()))?;
        params.subject_alt_names = vec![match host {
            Host::Name(name) => SanType::DnsName(made(name.as_str().try_into())?),
            Host::Address(address) => SanType::IpAddress(*address),
        }];
        params.distinguished_name.push(DnType::CommonName, "sandbox-run");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = (SystemTime::now() - SLACK).into();
        params.not_after = (SystemTime::now() + LEAF_LIFE).into();
        let certificate = made(params.signed_by(&self.leaf_key, &self.issuer))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = made(ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions())?;
        let mut config = made(builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// A client of TLS that goes on with `host` alone.
    pub(super) fn client(&self, host: &Host) -> Result<ClientConnection, NoAuthority> {
        let name = match host {
            Host::Name(name) => made(ServerName::try_from(name.as_str().to_owned()))?,
            Host::Address(address) => ServerName::IpAddress((*address).into()),
        };
        made(ClientConnection::new(Arc::clone(&self.client), name))
    }
}

fn pem(certificate: &[u8]) -> String {
    use base64::Engine;
    let code = base64::engine::general_purpose::STANDARD.encode(certificate);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in code.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}
