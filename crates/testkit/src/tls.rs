//! The TLS provider of the testkit.

/// Makes ring the TLS provider of this process.
pub(crate) fn use_ring() {
    // Fails if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
