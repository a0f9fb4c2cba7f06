//! The files that the components share: keys, certificates, tokens, the kubeconfig.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::Result;
use k8s_openapi::ByteString;
use kube::{Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::programs::KubernetesPorts;

/// The folder of one Kubernetes, and the ports that its components serve on.
#[derive(Debug)]
pub(in crate::testbed) struct KubernetesSite {
    pub(in crate::testbed) ports: KubernetesPorts,
    dir: PathBuf,
    /// The certificate of the components' authority, in PEM and DER.
    authority: Vec<u8>,
    authority_pem: String,
}

impl KubernetesSite {
    /// A site without written files.
    pub(in crate::testbed) fn at(dir: PathBuf, ports: KubernetesPorts) -> Self {
        Self { ports, dir, authority: Vec::new(), authority_pem: String::new() }
    }

    /// Recreates the folder, with all files that the components need when they start.
    pub(in crate::testbed) fn prepare(dir: PathBuf, ports: KubernetesPorts) -> Result<Self> {
        let mut site = Self::at(dir, ports);
        match fs::remove_dir_all(&site.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        fs::create_dir_all(site.path("home"))?;
        let token = Uuid::new_v4().simple().to_string();
        site.write("tokens.csv", &format!("{token},admin,admin,\"system:masters\"\n"))?;
        let accounts = KeyPair::generate()?;
        site.write("sa.key", &accounts.serialize_pem())?;
        site.write("sa.pub", &accounts.public_key_pem())?;
        let authority = site.write_certificates()?;
        site.authority = authority.der().to_vec();
        site.authority_pem = authority.pem();
        let kubeconfig = kubeconfig(ports.apiserver, &site.authority_pem, &token)?;
        site.write("kubeconfig", &serde_saphyr::to_string(&kubeconfig)?)?;
        Ok(site)
    }

    pub(in crate::testbed) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(in crate::testbed) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// The certificate of the authority that signed the components' certificates.
    pub(in crate::testbed) fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// A client without permissions for the component that serves on this port.
    pub(in crate::testbed) fn client(&self, port: u16) -> Result<Client> {
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
        config.root_cert = Some(vec![self.authority.clone()]);
        Ok(Client::try_from(config)?)
    }

    /// Writes the certificate that the components serve with, and returns that of its authority.
    fn write_certificates(&self) -> Result<rcgen::Certificate> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(DnType::CommonName, "muster-testbed");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let certificate = authority.self_signed(&authority_key)?;

        let mut server = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, "muster-testbed-server");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let server_key = KeyPair::generate()?;
        let issuer = Issuer::new(authority, authority_key);
        self.write("server.crt", &server.signed_by(&server_key, &issuer)?.pem())?;
        self.write("server.key", &server_key.serialize_pem())?;
        Ok(certificate)
    }

    /// Writes a file that only its owner can read, because most of these files contain secrets.
    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path(name))?;
        file.write_all(text.as_bytes())
    }
}

fn kubeconfig(port: u16, authority: &str, token: &str) -> Result<Value> {
    let name = "muster-testbed";
    // A byte string is base64 in JSON, as a kubeconfig requires.
    let authority = serde_json::to_value(ByteString(authority.as_bytes().to_vec()))?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": authority,
        }}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
    }))
}
