//! How HTTP clients are made, here and in crates above.

/// A builder of HTTP clients. Every client of this project begins here, since
/// TLS needs to know which cryptography to use: [`choose_cryptography`].
pub fn http_client() -> reqwest::ClientBuilder {
    choose_cryptography();
    reqwest::Client::builder()
}

/// Has TLS use `ring` in this process, unless the program chose another
/// already. `ring` is compiled in a tenth of the time of rustls' own choice,
/// AWS-LC.
pub fn choose_cryptography() {
    // An error says that there is a choice already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
