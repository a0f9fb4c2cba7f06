//! The one TLS provider.

/// Makes ring the provider of this process.
pub(crate) fn use_ring() {
    // It fails if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
