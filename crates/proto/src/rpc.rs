//! Messages of package `google.rpc`: the details of an error for gRPC clients.

use std::collections::BTreeMap;

use crate::wkt::Any;

/// The type URL of an [`ErrorInfo`].
pub const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// The gRPC code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The message for users.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The details for programs, such as an [`ErrorInfo`].
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ErrorInfo {
    /// The stable code of the error.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// The namespace of the reason.
    #[prost(string, tag = "2")]
    pub domain: String,
    /// Further values by name.
    #[prost(btree_map = "string, string", tag = "3")]
    pub metadata: BTreeMap<String, String>,
}
