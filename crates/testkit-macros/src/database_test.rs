//! The expansion of `#[database_test]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned as _;
use syn::{Error, Expr, FnArg, ItemFn, Pat, Result};

/// The kinds of database, with the names of their tests.
const CASES: [(&str, &str); 2] = [("Sqlite", "case_1_sqlite"), ("Postgres", "case_2_postgres")];

/// The name of a parameter that gets the kind of database instead of an opened harness.
const KIND: &str = "kind";

pub(crate) fn expand(open: TokenStream, test: TokenStream) -> Result<TokenStream> {
    let test: ItemFn = syn::parse2(test)?;
    let name = &test.sig.ident;
    if test.sig.asyncness.is_none() {
        return Err(Error::new(test.sig.span(), "a test on both databases is an async fn"));
    }
    let parameters: Vec<&FnArg> = test.sig.inputs.iter().collect();
    let [FnArg::Typed(parameter)] = parameters[..] else {
        return Err(Error::new(test.sig.span(), "a test on both databases takes one parameter"));
    };
    let takes_kind = matches!(&*parameter.pat, Pat::Ident(pattern) if pattern.ident == KIND);
    let opened = match (takes_kind, open.is_empty()) {
        (true, true) => quote!(Some(kind)),
        (true, false) => {
            return Err(Error::new(open.span(), "a test that takes the kind opens what it needs"));
        }
        (false, true) => {
            let harness = &parameter.ty;
            quote!(<#harness>::open(kind).await)
        }
        (false, false) => {
            let open: Expr = syn::parse2(open)?;
            quote!((#open)(kind).await)
        }
    };
    let cases = CASES.map(|(kind, case)| {
        let (kind, case) = (format_ident!("{kind}"), format_ident!("{case}"));
        quote! {
            #[::tokio::test]
            async fn #case() {
                let kind = ::muster_testkit::DatabaseKind::#kind;
                if let Some(opened) = #opened {
                    super::#name(opened).await;
                }
            }
        }
    });
    // The expression that opens the harness uses names of the surrounding module.
    let names = (!takes_kind).then(|| {
        quote!(
            use super::*;
        )
    });
    // Lints that exempt tests recognise the function by its `cfg`.
    Ok(quote! {
        #[cfg(test)]
        #test

        mod #name {
            #names

            #(#cases)*
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(open: TokenStream, test: TokenStream) -> String {
        expand(open, test).unwrap_err().to_string()
    }

    #[test]
    fn a_test_is_made_for_each_database() {
        let made = expand(
            quote!(),
            quote!(
                async fn works(harness: Harness) {}
            ),
        )
        .unwrap()
        .to_string();
        for part in [
            "async fn works (harness : Harness)",
            "mod works",
            "async fn case_1_sqlite ()",
            "async fn case_2_postgres ()",
            "< Harness > :: open (kind) . await",
        ] {
            assert!(made.contains(part), "no `{part}` in {made}");
        }
    }

    #[test]
    fn what_is_opened_by_another_function_or_by_the_test_is_not_opened_twice() {
        let made = expand(
            quote!(open_it),
            quote!(
                async fn works(harness: Harness) {}
            ),
        )
        .unwrap()
        .to_string();
        assert!(made.contains("(open_it) (kind) . await") && !made.contains(":: open"), "{made}");
        let made = expand(
            quote!(),
            quote!(
                async fn works(kind: Kind) {}
            ),
        )
        .unwrap()
        .to_string();
        assert!(made.contains("Some (opened) = Some (kind)") && !made.contains(":: open"), "{made}");
    }

    #[test]
    fn what_is_no_such_test_is_refused() {
        let not_async = refusal(
            quote!(),
            quote!(
                fn works(harness: Harness) {}
            ),
        );
        assert_eq!(not_async, "a test on both databases is an async fn");
        for test in [
            quote!(
                async fn works() {}
            ),
            quote!(
                async fn works(a: A, b: B) {}
            ),
        ] {
            assert_eq!(refusal(quote!(), test), "a test on both databases takes one parameter");
        }
        let both = refusal(
            quote!(open_it),
            quote!(
                async fn works(kind: Kind) {}
            ),
        );
        assert_eq!(both, "a test that takes the kind opens what it needs");
    }
}
