//! Pages by opaque tokens. A token is valid only for its own list, on every replica and after a restart, for as long
//! as history is retained.

use muster_core::time::{TimeSpan, Timestamp};
use muster_store::Cursor;
use serde::{Deserialize, Serialize};

use super::{
    ActionQuery, AppQuery, Authorized, ClusterQuery, ComputeTemplateQuery, EventQuery, ImageTemplateQuery,
    JobQuery, ListQuery, NodeQuery, PageScope, page_length,
};
use crate::error::{ErrorKind, ServiceError};
use crate::service::Service;
use crate::token_signer::TokenSigner;

/// A query for a list with page tokens.
pub trait PagedQuery: ListQuery + Clone {
    /// The text that distinguishes this list from others.
    fn scope(&self, sort_by: &str) -> String;

    /// Selects a page.
    fn select_page(&mut self, after: Option<Cursor>, limit: u32);
}

macro_rules! paged_queries {
    ($($query:ident, $scope:ident;)+) => {
        $(
            impl PagedQuery for $query {
                fn scope(&self, sort_by: &str) -> String {
                    PageScope::$scope(self, sort_by).into_text()
                }

                fn select_page(&mut self, after: Option<Cursor>, limit: u32) {
                    (self.after, self.limit) = (after, Some(limit));
                }
            }
        )+
    };
}

paged_queries! {
    AppQuery, apps;
    ClusterQuery, clusters;
    NodeQuery, nodes;
    EventQuery, events;
    ActionQuery, actions;
    ComputeTemplateQuery, compute_templates;
    ImageTemplateQuery, image_templates;
    JobQuery, jobs;
}

/// The requested page of a list.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'r> {
    /// The requested number of objects on the page, at most the largest page; none stands for all objects.
    pub limit: Option<u32>,
    /// The token that the previous page returned; empty for the first page.
    pub token: &'r str,
    /// The order as the request gives it. A token of another order is refused.
    pub sort_by: &'r str,
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct PageWithToken<T> {
    /// The objects on the page.
    pub items: Vec<T>,
    /// The token of the next page; empty on the last.
    pub next_token: String,
    /// The number of objects on all pages: on the last page, or if the query asks for it.
    pub total: Option<u64>,
}

impl Service {
    /// One page of the objects that a query selects, or all of them if the request has no limit.
    pub async fn list_page<Q: PagedQuery>(
        &self,
        query: &Authorized<Q>,
        page: PageRequest<'_>,
    ) -> Result<PageWithToken<Q::Item>, ServiceError> {
        match page.limit {
            Some(limit) => self.single_page(query, page, limit).await,
            None => self.pages(query, page, u64::MAX).await,
        }
    }

    async fn single_page<Q: PagedQuery>(
        &self,
        query: &Authorized<Q>,
        page: PageRequest<'_>,
        limit: u32,
    ) -> Result<PageWithToken<Q::Item>, ServiceError> {
        let tokens = PageTokens {
            signer: self.signer().await?,
            scope: query.0.scope(page.sort_by),
            now: self.now(),
            retention: self.retention(),
        };
        let mut query = query.clone();
        query.0.select_page(tokens.read(page.token)?, page_length(Some(limit)));
        let found = self.read_page(&query).await?;
        let next_token = found.next.map(|cursor| tokens.write(cursor)).unwrap_or_default();
        Ok(PageWithToken { items: found.items, next_token, total: found.total })
    }

    /// Reads up to `limit` objects over as many pages as necessary, for lists whose clients expect all of them in one
    /// response.
    pub async fn list_run<Q: PagedQuery>(
        &self,
        query: &Authorized<Q>,
        token: &str,
        limit: u64,
    ) -> Result<PageWithToken<Q::Item>, ServiceError> {
        self.pages(query, PageRequest { limit: None, token, sort_by: "" }, limit).await
    }

    async fn pages<Q: PagedQuery>(
        &self,
        query: &Authorized<Q>,
        first: PageRequest<'_>,
        limit: u64,
    ) -> Result<PageWithToken<Q::Item>, ServiceError> {
        let mut all = PageWithToken { items: Vec::new(), next_token: first.token.to_owned(), total: None };
        let mut missing = limit;
        loop {
            let asked = u32::try_from(missing).unwrap_or(u32::MAX);
            let page =
                self.single_page(query, PageRequest { token: &all.next_token, ..first }, asked).await?;
            missing = missing.saturating_sub(page.items.len() as u64);
            all.items.extend(page.items);
            (all.next_token, all.total) = (page.next_token, page.total);
            if all.next_token.is_empty() || missing == 0 {
                return Ok(all);
            }
        }
    }
}

/// The content of a page token.
#[derive(Debug, Serialize, Deserialize)]
struct PageToken {
    /// The last row of the previous page.
    cursor: Cursor,
    /// The time when the token was issued, in microseconds since 1970.
    at: i64,
}

/// The tokens of one list.
struct PageTokens<'s> {
    signer: &'s TokenSigner,
    scope: String,
    now: Timestamp,
    retention: TimeSpan,
}

impl PageTokens<'_> {
    fn read(&self, token: &str) -> Result<Option<Cursor>, ServiceError> {
        if token.is_empty() {
            return Ok(None);
        }
        let carried = self.signer.verify(&self.scope, token);
        let read: Option<PageToken> = carried.and_then(|carried| serde_json::from_slice(&carried).ok());
        let PageToken { cursor, at } = read.ok_or_else(|| {
            ServiceError::invalid(format!(
                "page_token '{token}' does not belong to this list: omit it, or use the filters and order of the first \
                 page"
            ))
        })?;
        if self.now.since(Timestamp::from_micros(at)) > self.retention {
            let message = format!(
                "page_token is older than {}, which is the retention of history: begin again without one",
                self.retention
            );
            return Err(ServiceError::new(ErrorKind::Expired, message).code("PageTokenExpired"));
        }
        Ok(Some(cursor))
    }

    fn write(&self, cursor: Cursor) -> String {
        let token = PageToken { cursor, at: self.now.micros() };
        serde_json::to_vec(&token).map(|carried| self.signer.sign(&self.scope, &carried)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn tokens<'s>(signer: &'s TokenSigner, list: &str, now: i64) -> PageTokens<'s> {
        let (now, retention) = (Timestamp::from_micros(now), TimeSpan::from_secs(60));
        PageTokens { signer, scope: list.to_owned(), now, retention }
    }

    fn cursor() -> Cursor {
        serde_json::from_str(r#"{"keys": ["b"], "id": "x"}"#).unwrap()
    }

    #[test]
    fn a_token_leads_to_the_next_page_of_its_own_list() {
        let signer = TokenSigner::new("k");
        let token = tokens(&signer, "clusters", 1).write(cursor());
        assert_eq!(tokens(&signer, "clusters", 2).read(&token).unwrap(), Some(cursor()));
        let other = tokens(&signer, "nodes", 2).read(&token).unwrap_err();
        assert_eq!(other.kind, ErrorKind::Invalid);
        assert!(other.message.contains(&token), "{other}");
    }

    #[test]
    fn a_token_older_than_the_history_has_expired() {
        let signer = TokenSigner::new("k");
        let token = tokens(&signer, "clusters", 0).write(cursor());
        let error = tokens(&signer, "clusters", 60_000_001).read(&token).unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Expired, Some("PageTokenExpired")));
        assert!(error.message.contains("older than 1m"), "{error}");
    }

    #[rstest]
    #[case("gibberish")]
    #[case("e30")]
    fn a_forged_token_is_refused(#[case] token: &str) {
        let error = tokens(&TokenSigner::new("k"), "clusters", 1).read(token).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
    }
}
