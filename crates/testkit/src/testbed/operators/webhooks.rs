//! The webhooks of Domino's operator, without which the API server rejects its objects.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::ByteString;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::testbed::kubernetes::KubernetesSite;

const GROUP: &str = "distributed-compute.dominodatalab.com";
/// The field manager of the registration.
const MANAGER: &str = "muster-testbed";
/// The interval between checks of the webhooks.
const INTERVAL: Duration = Duration::from_millis(50);

/// Writes the certificate to the temporary folder of the operator, which searches it there.
pub(super) fn write_certificate(site: &KubernetesSite) -> Result<()> {
    let folder = site.path("domino/k8s-webhook-server/serving-certs");
    fs::create_dir_all(&folder)?;
    fs::copy(site.path("server.crt"), folder.join("tls.crt"))?;
    fs::copy(site.path("server.key"), folder.join("tls.key"))?;
    Ok(())
}

/// Registers the webhooks, so that the API server calls them at this port of this machine.
pub(super) async fn register(admin: &Client, file: &Path, port: u16, authority: &str) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    for mut configuration in serde_saphyr::from_multiple::<Value>(&text)? {
        redirect(&mut configuration, port, authority)?;
        let name = configuration["metadata"]["name"].as_str().context("webhooks without a name")?;
        let kind = configuration["kind"].as_str().unwrap_or_default();
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(admin.clone(), &ApiResource::from_gvk(&kind));
        let apply = PatchParams::apply(MANAGER).force();
        api.patch(name, &apply, &Patch::Apply(&configuration))
            .await
            .with_context(|| format!("cannot register the webhooks of {name}"))?;
    }
    Ok(())
}

/// Replaces the service behind each webhook by an address of this machine.
fn redirect(configuration: &mut Value, port: u16, authority: &str) -> Result<()> {
    // A byte string is base64 in JSON, as a CA bundle requires.
    let bundle = serde_json::to_value(ByteString(authority.as_bytes().to_vec()))?;
    let webhooks = configuration["webhooks"].as_array_mut().context("a configuration without webhooks")?;
    for webhook in webhooks {
        let path = webhook.pointer("/clientConfig/service/path").and_then(Value::as_str);
        let path = path.context("a webhook without a path")?;
        let url = format!("https://127.0.0.1:{port}{path}");
        webhook["clientConfig"] = json!({"url": url, "caBundle": bundle});
    }
    // Drops `creationTimestamp`, which is null in the file.
    configuration["metadata"] = json!({"name": configuration["metadata"]["name"]});
    Ok(())
}

/// Waits until the API server gets responses from the webhooks, even refusals.
pub(super) async fn answer(admin: &Client) -> Result<()> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", "DaskCluster"));
    let api: Api<DynamicObject> = Api::namespaced_with(admin.clone(), "default", &kind);
    let rehearsal = PostParams { dry_run: true, ..PostParams::default() };
    while !is_an_answer(&api.create(&rehearsal, &DynamicObject::new("rehearsal", &kind)).await) {
        tokio::time::sleep(INTERVAL).await;
    }
    Ok(())
}

/// Returns true if a webhook responded: the API server returns 500 if it cannot reach a webhook, and 404 if it does not
/// serve the kind yet.
fn is_an_answer<T>(outcome: &kube::Result<T>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => status.code == 422,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_called_on_this_machine_with_its_path() {
        let mut configuration = json!({
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validating", "creationTimestamp": null},
            "webhooks": [{
                "name": "v.kb.io",
                "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": "/validate"}},
            }],
        });
        redirect(&mut configuration, 9443, "CA").unwrap();
        let expected = json!({
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validating"},
            "webhooks": [
                {"name": "v.kb.io", "clientConfig": {"url": "https://127.0.0.1:9443/validate", "caBundle": "Q0E="}},
            ],
        });
        assert_eq!(configuration, expected);
    }
}
