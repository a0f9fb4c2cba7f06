//! Who is calling, and through which door.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::string_enum::{deserialize_stored_set, string_enum};

string_enum! {
    /// What a principal may do in its project.
    stored Role, "role" {
        /// Sees.
        Reader = "reader",
        /// Sees and changes.
        Member = "member",
        /// May do anything, everywhere.
        Admin = "admin",
    }
}

string_enum! {
    /// The way a change came in.
    stored Door, "door" {
        /// The core API, gRPC or REST.
        Core = "core",
        /// The clustering API.
        Clustering = "clustering",
        /// The scaler API.
        Scaler = "scaler",
        /// A receiver's webhook.
        Webhook = "webhook",
        /// The application that a cluster belongs to.
        App = "app",
        /// Muster itself: healing, idle stop, janitor.
        Engine = "engine",
    }
}

/// Somebody who was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The scheme that vouches for the id; ids of different schemes are never equal.
    pub scheme: String,
    /// The id within the scheme.
    pub id: String,
    /// What people read.
    pub name: String,
    /// The tenant it acts in.
    pub project: String,
    /// What it may do there.
    #[serde(deserialize_with = "deserialize_stored_set")]
    pub roles: BTreeSet<Role>,
}

impl Principal {
    /// Muster's own healing and housekeeping.
    pub fn engine() -> Self {
        Self {
            scheme: "muster".to_owned(),
            id: "engine".to_owned(),
            name: "muster".to_owned(),
            project: String::new(),
            roles: BTreeSet::from([Role::Admin]),
        }
    }

    /// Whether it may do anything, everywhere.
    pub fn is_admin(&self) -> bool {
        self.roles.contains(&Role::Admin)
    }

    /// As an owner is recorded.
    pub fn as_owner(&self) -> Owner {
        Owner { scheme: self.scheme.clone(), id: self.id.clone(), name: self.name.clone() }
    }
}

/// Whom a cluster belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Owner {
    /// The scheme that vouches for the id.
    pub scheme: String,
    /// The id within the scheme.
    pub id: String,
    /// What people read.
    pub name: String,
}

impl Owner {
    /// Somebody of whom only an id is known, and who says so.
    pub fn of_scheme(scheme: &str, id: &str) -> Self {
        Self { scheme: scheme.to_owned(), id: id.to_owned(), name: id.to_owned() }
    }
}
