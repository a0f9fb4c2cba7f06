//! Principals, and the APIs that they use.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::string_enum::{deserialize_stored_set, string_enum};

string_enum! {
    /// The role of a principal in its project.
    stored Role, "role" {
        /// May read the objects of its project.
        Reader = "reader",
        /// May read and change the objects of its project.
        Member = "member",
        /// May do anything in every project.
        Admin = "admin",
    }
}

string_enum! {
    /// The API through which a change was requested.
    stored Door, "door" {
        /// The core API, gRPC or REST.
        Core = "core",
        /// The clustering API.
        Clustering = "clustering",
        /// The scaler API.
        Scaler = "scaler",
        /// A receiver's webhook.
        Webhook = "webhook",
        /// The app that a cluster belongs to.
        App = "app",
        /// Muster itself: healing, expiry and garbage collection.
        Engine = "engine",
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The authentication scheme; ids of different schemes are never equal.
    pub scheme: String,
    /// The id within the scheme.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The project that the principal acts in.
    pub project: String,
    /// The roles in that project.
    #[serde(deserialize_with = "deserialize_stored_set")]
    pub roles: BTreeSet<Role>,
}

impl Principal {
    /// The principal of the engine's own actions, such as healing and garbage collection.
    pub fn engine() -> Self {
        Self {
            scheme: "muster".to_owned(),
            id: "engine".to_owned(),
            name: "muster".to_owned(),
            project: String::new(),
            roles: BTreeSet::from([Role::Admin]),
        }
    }

    /// Returns true if the principal may do anything in every project.
    pub fn is_admin(&self) -> bool {
        self.roles.contains(&Role::Admin)
    }

    /// Returns true if the principal is this owner. Schemes are compared too, because ids of different schemes may be
    /// equal.
    pub fn owns(&self, owner: &Owner) -> bool {
        !self.id.is_empty() && (&self.scheme, &self.id) == (&owner.scheme, &owner.id)
    }

    /// The owner that this principal becomes.
    pub fn as_owner(&self) -> Owner {
        Owner { scheme: self.scheme.clone(), id: self.id.clone(), name: self.name.clone() }
    }
}

/// The owner of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Owner {
    /// The authentication scheme.
    pub scheme: String,
    /// The id within the scheme.
    pub id: String,
    /// The display name.
    pub name: String,
}

impl Owner {
    /// An owner of whom only an unverified id is known.
    pub fn of_scheme(scheme: &str, id: &str) -> Self {
        Self { scheme: scheme.to_owned(), id: id.to_owned(), name: id.to_owned() }
    }
}
