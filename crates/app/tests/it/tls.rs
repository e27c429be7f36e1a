//! TLS: of the service, and towards servers whose certificate a private
//! authority signed.

use crate::{
    attacks::eventually,
    serve::{Service, chat, promoted},
    workspace::Workspace,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::Certificate;
use serde_json::Value;
use std::time::{Duration, Instant};

const ARGUMENTS: [&str; 4] = ["--tls-certificate", "chain.pem", "--tls-key", "key.pem"];

/// Writes the certificate of an authority, and one for 127.0.0.1 that it signed.
fn certify(workspace: &Workspace) {
    let authority = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    workspace.write("authority.pem", parameters.self_signed(&authority).unwrap().pem());
    let issuer = Issuer::new(parameters, authority);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    workspace.write("chain.pem", own.pem());
    workspace.write("key.pem", key.serialize_pem());
}

#[tokio::test]
async fn a_service_with_a_certificate_answers_those_who_trust_its_authority() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    certify(&workspace);
    let service = Service::start(&workspace, &[&["bundle"], &ARGUMENTS[..]].concat());
    assert!(service.url.starts_with("https://"), "{}", service.url);
    let authority = std::fs::read(workspace.file("authority.pem")).unwrap();
    let authority = Certificate::from_pem(&authority).unwrap();
    let trusting = reqwest::Client::builder().add_root_certificate(authority).build().unwrap();
    let url = format!("{}/v1/chat/completions", service.url);
    let asked = trusting.post(&url).json(&chat("What do barn owls swallow?"));
    let answer: Value = asked.send().await.unwrap().error_for_status().unwrap().json().await.unwrap();
    assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty(), "{answer}");

    let other = reqwest::Client::new().get(&url).send().await.unwrap_err();
    assert!(store::error_chain(&other).contains("certificate"), "{other:?}");
    let plain = reqwest::Client::new().get(url.replace("https:", "http:")).send().await;
    assert!(plain.is_err(), "nothing is said without TLS");
    // The service may notice the end of a connection after its client did.
    eventually("both are counted", async || {
        let metrics = trusting.get(format!("{}/metrics", service.url)).send().await.unwrap().text().await.unwrap();
        metrics.contains("reverie_connections_total{kind=\"no_handshake\"} 2")
    })
    .await;
}

#[tokio::test]
async fn a_certificate_that_is_none_and_a_key_of_another_are_told_at_the_start() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    certify(&workspace);
    let serve = |certificate: &str, key: &str| {
        let listen = ["serve", "bundle", "--listen", "127.0.0.1:0"];
        workspace.run(&[&listen[..], &["--tls-certificate", certificate, "--tls-key", key]].concat())
    };
    let told = serve("key.pem", "key.pem");
    assert!(told.err.contains("key.pem") && told.code != Some(0), "{}", told.err);
    let told = serve("authority.pem", "key.pem");
    assert!(
        told.err.contains("key.pem: it is not the key of the certificate in") && told.code != Some(0),
        "{}",
        told.err
    );
}

#[tokio::test]
async fn a_certificate_of_a_private_authority_is_told_at_once_and_trusted_where_it_is_named() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    certify(&workspace);
    let service = Service::start(&workspace, &[&["bundle"], &ARGUMENTS[..]].concat());
    let authority = workspace.file("authority.pem").display().to_string();
    let run = |arguments: &[&str], trust: bool| {
        let mut command = workspace.command(arguments);
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_ENDPOINT_URL", &service.url);
        if trust {
            command.env("SSL_CERT_FILE", &authority);
        }
        crate::workspace::Outcome::of(command.output().unwrap())
    };
    let begun = Instant::now();
    let told = run(&["store", "copy", "store", "s3://bucket/x"], false);
    assert!(told.err.contains("set SSL_CERT_FILE") && told.err.contains("s3://bucket/x"), "{}", told.err);
    assert!(begun.elapsed() < Duration::from_secs(85), "it is the same the next time: {:?}", begun.elapsed());
    // It speaks no S3, but it was reached.
    let told = run(&["store", "copy", "store", "s3://bucket/x"], true);
    assert!(told.code != Some(0) && !told.err.contains("certificate"), "{}", told.err);

    let text = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let model = format!("[models.far]\nembedding.openai = {{ model = \"tiny\", base_url = \"{}/v1\" }}\n", service.url);
    let space = text.replace("embedder = [\"tiny\"]", "embedder = [\"far\"]");
    assert_ne!(space, text);
    workspace.write("experiment.toml", format!("{space}\n{model}"));
    run(&["run"], false).refused_with(&["set SSL_CERT_FILE"]);
    run(&["run"], true).succeeds();
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_unless_it_is_an_authority_which_is_told() {
    let (workspace, _server) = promoted(Duration::ZERO).await;
    for is_ca in [false, true] {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        if is_ca {
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        workspace.write("chain.pem", parameters.self_signed(&key).unwrap().pem());
        workspace.write("key.pem", key.serialize_pem());
        let service = Service::start(&workspace, &[&["bundle"], &ARGUMENTS[..]].concat());
        let mut command = workspace.command(&["store", "copy", "store", "s3://bucket/x"]);
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_ENDPOINT_URL", &service.url);
        command.env("SSL_CERT_FILE", workspace.file("chain.pem"));
        let told = crate::workspace::Outcome::of(command.output().unwrap());
        assert!(told.code != Some(0) && told.err.contains("CA:FALSE") == is_ca, "{}", told.err);
        assert!(is_ca || !told.err.contains("certificate"), "it was reached: {}", told.err);
    }
}
