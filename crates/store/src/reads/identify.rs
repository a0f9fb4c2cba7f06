//! The search for an object by its id, its name, or a prefix of its id.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use crate::error::StoreError;
use crate::keyset::Filter;
use crate::readers::ResultSize;
use crate::store::Store;
use crate::transaction::Transaction;

/// The kinds of objects that can be identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A cluster that is not deleted.
    Cluster,
    /// A node.
    Node,
    /// A profile.
    Profile,
    /// A policy.
    Policy,
    /// A receiver.
    Receiver,
    /// An action, which cannot be identified by a name.
    Action,
    /// An event, which has no name.
    Event,
}

impl ObjectKind {
    const fn table(self) -> &'static str {
        match self {
            Self::Cluster => "clusters",
            Self::Node => "nodes",
            Self::Profile => "profiles",
            Self::Policy => "policies",
            Self::Receiver => "receivers",
            Self::Action => "actions",
            Self::Event => "events",
        }
    }

    const fn has_name(self) -> bool {
        !matches!(self, Self::Action | Self::Event)
    }
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No object.
    Nothing,
    /// One object.
    One(Uuid),
    /// Several objects, so that the reference is ambiguous.
    Several,
}

/// Returns true if a reference may be an id.
fn looks_like_id(given: &str) -> bool {
    given.parse::<Uuid>().is_ok()
}

impl Store {
    /// Finds an object by an id, a name or a prefix of an id, in one project or in all. A reference that looks like an
    /// id is searched as an id and then as a name; any other one as a name and then as a prefix of an id.
    pub async fn identify(
        &self,
        kind: ObjectKind,
        project: Option<&str>,
        given: &str,
    ) -> Result<Found, StoreError> {
        let found = self.identify_all(kind, project, &[given]).await?;
        Ok(found.first().copied().unwrap_or(Found::Nothing))
    }

    /// Finds many objects at once; the results have the order of the references.
    pub async fn identify_all(
        &self,
        kind: ObjectKind,
        project: Option<&str>,
        given: &[&str],
    ) -> Result<Vec<Found>, StoreError> {
        // One id is found by its key; a search by name may read every row.
        let size =
            if matches!(given, [one] if looks_like_id(one)) { ResultSize::Few } else { ResultSize::Many };
        let known = self
            .measured(size, async |tx| {
                // An empty text would be a prefix of every id.
                let mut open: BTreeSet<&str> =
                    given.iter().copied().filter(|text| !text.is_empty()).collect();
                let mut search = Search { tx, kind, project, known: HashMap::new() };
                let ids: Vec<&str> = open.iter().copied().filter(|text| looks_like_id(text)).collect();
                search.by("id", &ids).await?;
                open.retain(|text| !search.known.contains_key(*text));
                if kind.has_name() {
                    search.by("name", &open.iter().copied().collect::<Vec<_>>()).await?;
                    open.retain(|text| !search.known.contains_key(*text));
                }
                for text in open.into_iter().filter(|text| !looks_like_id(text)) {
                    search.by_beginning(text).await?;
                }
                Ok(search.known)
            })
            .await?;
        Ok(given.iter().map(|text| known.get(*text).copied().unwrap_or(Found::Nothing)).collect())
    }
}

/// The objects found so far, by their references.
struct Search<'s, 'c> {
    tx: &'s mut Transaction<'c>,
    kind: ObjectKind,
    project: Option<&'s str>,
    known: HashMap<String, Found>,
}

impl Search<'_, '_> {
    /// Searches the objects whose column has one of these values; several objects may have the same value.
    async fn by(&mut self, column: &str, given: &[&str]) -> Result<(), StoreError> {
        if given.is_empty() {
            return Ok(());
        }
        let mut filter = self.scope();
        let place = filter.next_place();
        let (these, argument) = self.tx.dialect().any_of(column, &place, given);
        filter.place(argument);
        filter.add(these);
        let (table, scope) = (self.kind.table(), filter.to_where());
        let sql = format!("SELECT {column}, min(id), max(id) FROM {table} {scope} GROUP BY {column}");
        for row in self.tx.rows(sql, filter.arguments).await? {
            let (least, most): (Uuid, Uuid) = (row.parse(1)?, row.parse(2)?);
            let found = if least == most { Found::One(least) } else { Found::Several };
            self.known.insert(row.text(0)?, found);
        }
        Ok(())
    }

    async fn by_beginning(&mut self, given: &str) -> Result<(), StoreError> {
        let mut filter = self.scope();
        let (from, upto) = (filter.place(given), filter.place(format!("{given}\u{10ffff}")));
        filter.add(format!("id >= {from} AND id < {upto}"));
        let sql = format!("SELECT id FROM {} {} LIMIT 2", self.kind.table(), filter.to_where());
        let found = match self.tx.rows(sql, filter.arguments).await?.as_slice() {
            [] => return Ok(()),
            [one] => Found::One(one.parse(0)?),
            _ => Found::Several,
        };
        self.known.insert(given.to_owned(), found);
        Ok(())
    }

    /// The filter of identifiable objects.
    fn scope(&self) -> Filter {
        let mut filter = Filter::default();
        if let Some(project) = self.project {
            let place = filter.place(project);
            filter.add(format!("project = {place}"));
        }
        if self.kind == ObjectKind::Cluster {
            filter.add("deleted_at IS NULL");
        }
        filter
    }
}
