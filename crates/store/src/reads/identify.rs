//! Finding something by its id, its name, or the beginning of its id.

use uuid::Uuid;

use crate::error::StoreError;
use crate::keyset::Filter;
use crate::store::Store;
use crate::transaction::Transaction;

/// What can be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// A cluster that is there.
    Cluster,
    /// A node.
    Node,
    /// A profile.
    Profile,
    /// A policy.
    Policy,
    /// A receiver.
    Receiver,
    /// An action; it has no name here.
    Action,
    /// An event; it has no name.
    Event,
}

impl Thing {
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

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// One thing.
    One(Uuid),
    /// Several; the name is not enough.
    Several,
}

/// How something is called.
#[derive(Debug, Clone, Copy)]
enum By {
    Id,
    Name,
    BeginningOfId,
}

impl Store {
    /// What somebody calls by an id, a name or the beginning of an id: what looks like an id is looked for as that and
    /// then as a name; anything else as a name and then as the beginning of an id. In one project, or in all.
    pub async fn identify(
        &self,
        thing: Thing,
        project: Option<&str>,
        given: &str,
    ) -> Result<Found, StoreError> {
        // Every id begins with nothing.
        if given.is_empty() {
            return Ok(Found::Nothing);
        }
        let ways =
            if given.parse::<Uuid>().is_ok() { [By::Id, By::Name] } else { [By::Name, By::BeginningOfId] };
        self.read_many(async |tx| {
            for way in ways {
                match look(tx, thing, project, given, way).await?.as_slice() {
                    [] => {}
                    [one] => return Ok(Found::One(*one)),
                    _ => return Ok(Found::Several),
                }
            }
            Ok(Found::Nothing)
        })
        .await
    }
}

async fn look(
    tx: &mut Transaction<'_>,
    thing: Thing,
    project: Option<&str>,
    given: &str,
    way: By,
) -> Result<Vec<Uuid>, StoreError> {
    let mut filter = Filter::default();
    match way {
        By::Name if !thing.has_name() => return Ok(Vec::new()),
        By::Name => {
            let place = filter.place(given);
            filter.add(format!("name = {place}"));
        }
        By::Id => {
            let place = filter.place(given);
            filter.add(format!("id = {place}"));
        }
        By::BeginningOfId => {
            let (from, upto) = (filter.place(given), filter.place(format!("{given}\u{10ffff}")));
            filter.add(format!("id >= {from} AND id < {upto}"));
        }
    }
    if let Some(project) = project {
        let place = filter.place(project);
        filter.add(format!("project = {place}"));
    }
    if thing == Thing::Cluster {
        filter.add("deleted_at IS NULL");
    }
    let sql = format!("SELECT id FROM {} {} LIMIT 2", thing.table(), filter.to_where());
    let rows = tx.rows(sql, filter.arguments).await?;
    rows.iter().map(|row| row.parse(0)).collect()
}
