//! The one TLS provider.

/// Makes ring the provider of this process.
pub(crate) fn use_ring() {
    // It fails when a provider is installed already, and then there is nothing left to do.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
