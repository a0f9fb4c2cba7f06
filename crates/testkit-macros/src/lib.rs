//! The attribute `database_test`, which runs a test on both databases; `muster_testkit` exports it.
//!
//! Procedural macros need a separate crate; the databases are in `muster-testkit`. Begin reading at
//! [`macro@database_test`]; the expansion is in `database_test.rs`.

mod database_test;

use proc_macro::TokenStream;

/// Makes two tests of an asynchronous function, `case_1_sqlite` and `case_2_postgres`.
///
/// The function takes the harness of its suite. Each test opens the harness by `open` of its type, and is skipped if
/// that returns `None`, which has recorded the missing database by then.
///
/// ```text
/// #[database_test]
/// async fn a_new_cluster_has_a_row(harness: Harness) { … }
///
/// // Opened by another function of the kind of database.
/// #[database_test(|kind| Harness::with_config(kind, impatient()))]
/// async fn a_lease_ends(harness: Harness) { … }
///
/// // A parameter of this name is the kind itself: the test opens what it needs.
/// #[database_test]
/// async fn a_clock_is_shared(kind: DatabaseKind) { … }
/// ```
#[proc_macro_attribute]
pub fn database_test(open: TokenStream, test: TokenStream) -> TokenStream {
    database_test::expand(open.into(), test.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
