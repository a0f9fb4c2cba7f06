//! The names by which Domino's clusters and users are known.

/// The flavor of clusters whose objects are Domino's.
pub const FLAVOR: &str = "domino";

/// The scheme of Domino's users, in the configuration, in principals and in owners of clusters.
pub const SCHEME: &str = "domino";

/// The label of the user that Domino started a cluster for.
pub const STARTED_BY: &str = "dominodatalab.com/starting-user-id";
