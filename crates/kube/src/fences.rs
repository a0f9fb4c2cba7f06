//! Fences as they stand on objects: each with the database that it was drawn from, since numbers of unrelated
//! databases say nothing about each other. What another database's Muster wrote is an edit like anybody's.

use std::sync::Arc;

use muster_core::action::Fence;
use muster_engine::ports::provider::ProviderError;

/// A fence as it stands on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written(String);

impl Written {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The fences of one database.
#[derive(Debug, Clone)]
pub(crate) struct Fences {
    database: Arc<str>,
}

impl Fences {
    pub(crate) fn of(database: &str) -> Self {
        Self { database: database.into() }
    }

    /// As it stands on an object.
    pub(crate) fn written(&self, fence: Fence) -> Written {
        Written(format!("{}/{}", self.database, fence.0))
    }

    /// The one that was written, if it is one of these.
    pub(crate) fn read(&self, written: Option<&Written>) -> Option<Fence> {
        let (database, number) = written?.as_str().rsplit_once('/')?;
        number.parse().ok().filter(|_| database == &*self.database).map(Fence)
    }

    /// Refuses a write of an engine that another one has overtaken.
    pub(crate) fn refuse_older(&self, fence: Fence, written: Option<&Written>) -> Result<(), ProviderError> {
        match self.read(written).filter(|written| *written > fence) {
            Some(written) => Err(ProviderError::overtaken(fence, written)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(None, true)]
    #[case::older(Some("ours/6"), true)]
    #[case::same(Some("ours/7"), true)]
    #[case::newer(Some("ours/8"), false)]
    #[case::of_others(Some("theirs/8"), true)]
    #[case::no_fence(Some("8"), true)]
    fn only_a_newer_fence_of_the_same_database_overtakes(#[case] written: Option<&str>, #[case] goes: bool) {
        let written = written.map(Written::new);
        let result = Fences::of("ours").refuse_older(Fence(7), written.as_ref());
        assert_eq!(result.is_ok(), goes, "{result:?}");
    }

    #[test]
    fn a_fence_is_read_as_it_was_written() {
        let (ours, theirs) = (Fences::of("ours"), Fences::of("theirs"));
        let written = ours.written(Fence(7));
        assert_eq!((ours.read(Some(&written)), theirs.read(Some(&written))), (Some(Fence(7)), None));
    }
}
