//! The names that identify clusters and users of Domino.

/// The flavor of clusters whose objects are custom resources of Domino.
pub const FLAVOR: &str = "domino";

/// The scheme of Domino's users, in the configuration, in principals and in owners of clusters.
pub const SCHEME: &str = "domino";

/// The label of the user that Domino started a cluster for.
pub const STARTED_BY: &str = "dominodatalab.com/starting-user-id";
