//! The parts of Domino that Muster calls: users and hardware tiers.

use serde_json::{Value, json};

use crate::outside::{Outside, ReceivedRequest, Reply};

/// A Domino with two users, an admin and some hardware tiers. API keys are `ann`, `bob` and `root`, tokens
/// `Bearer ann-token`, `Bearer bob-token` and `Bearer root-token`; the ids of the users are `id-ann` and so on.
pub struct FakeDomino {
    outside: Outside,
}

impl FakeDomino {
    /// Starts a Domino without faults.
    pub async fn start() -> Self {
        Self { outside: Outside::answering(answer).await }
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        self.outside.url("")
    }

    /// Answers all later requests with this reply.
    pub fn fails(&self, reply: Reply) {
        self.outside.answers_by(move |_| reply.clone());
    }

    /// Answers all later requests for tiers with this reply; requests for users still succeed.
    pub fn fails_for_tiers(&self, reply: Reply) {
        self.outside.answers_by(move |called| {
            if called.line.contains("hardwareTier") { reply.clone() } else { answer(called) }
        });
    }

    /// Ends the faults.
    pub fn recovers(&self) {
        self.outside.answers_by(answer);
    }

    /// The received requests that were not read yet.
    pub fn received(&mut self) -> Vec<ReceivedRequest> {
        self.outside.received()
    }
}

fn answer(called: &ReceivedRequest) -> Reply {
    let name = match (called.header("x-domino-api-key"), called.header("authorization")) {
        ("", token) => token.strip_prefix("Bearer ").and_then(|token| token.strip_suffix("-token")),
        (key, _) => Some(key),
    };
    let known = name.filter(|name| ["ann", "bob", "root"].contains(name));
    let Some(name) = known else { return Reply::Now(401, json!({"message": "unknown"}).to_string()) };
    let body = match called.line.as_str() {
        "GET /v4/auth/principal" => json!({
            "isAnonymous": false, "isAdmin": name == "root", "canonicalId": format!("id-{name}"),
            "canonicalName": name, "allowedSystemOperations": [], "featureFlags": [],
        }),
        "GET /v4/hardwareTier" => json!({"hardwareTiers": tiers()}),
        _ => return Reply::Now(404, json!({"message": "not found"}).to_string()),
    };
    Reply::Now(200, body.to_string())
}

fn tiers() -> Vec<Value> {
    let tier = |id: &str, name: &str, cores: f64, memory: f64, change: Value| {
        let mut tier = json!({
            "id": id, "name": name, "nodePool": "default", "gpuConfiguration": null, "hwtFlags": {},
            "hwtResources": {
                "cores": cores, "coresLimit": null, "memory": {"value": memory, "unit": "GiB"},
                "memoryLimit": null, "allowSharedMemoryToExceedDefault": false,
            },
            "computeClusterRestrictions": {
                "restrictToSpark": false, "restrictToRay": false, "restrictToDask": false, "restrictToMpi": false,
            },
            "centsPerMinute": 0, "podCustomization": {}, "metadata": {},
        });
        for (key, value) in change.as_object().into_iter().flatten() {
            tier[key] = value.clone();
        }
        tier
    };
    vec![
        tier("small-k8s", "Small", 1.0, 4.0, json!({})),
        tier("medium-k8s", "Medium", 2.0, 8.0, json!({})),
        tier(
            "gpu-k8s",
            "GPU",
            2.0,
            8.0,
            json!({"nodePool": "gpus", "gpuConfiguration": {"numberOfGpus": 1, "gpuKey": "nvidia.com/gpu"}}),
        ),
        tier("lost-k8s", "Lost", 1.0, 4.0, json!({"nodePool": "nowhere"})),
        tier("mpi-k8s", "MPI", 1.0, 4.0, json!({"hwtComputeClusterRestrictions": {"restrictToMpi": true}})),
    ]
}
