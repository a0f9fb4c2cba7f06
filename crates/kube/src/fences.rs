//! Fences as they are written on objects: with the id of their database, since the numbers of two databases cannot be
//! compared. A write by a Muster with another database counts as an external edit.

use std::sync::Arc;

use muster_core::action::Fence;
use muster_engine::ports::provider::ProviderError;

/// The text of a fence on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenFence(String);

impl WrittenFence {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Formats, reads and compares the fences of one database.
#[derive(Debug, Clone)]
pub(crate) struct Fences {
    database: Arc<str>,
}

impl Fences {
    pub(crate) fn new(database: &str) -> Self {
        Self { database: database.into() }
    }

    /// Returns the text of a fence for an object.
    pub(crate) fn format(&self, fence: Fence) -> WrittenFence {
        WrittenFence(format!("{}/{}", self.database, fence.0))
    }

    /// Returns the fence in a text; `None` if it is of another database.
    pub(crate) fn read(&self, written: Option<&WrittenFence>) -> Option<Fence> {
        let (database, number) = written?.as_str().rsplit_once('/')?;
        number.parse().ok().filter(|_| database == &*self.database).map(Fence)
    }

    /// Refuses a write whose fence is older than the one on the object: another engine has taken the action over.
    pub(crate) fn refuse_older(
        &self,
        fence: Fence,
        written: Option<&WrittenFence>,
    ) -> Result<(), ProviderError> {
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
    fn only_a_newer_fence_of_the_same_database_overtakes(
        #[case] written: Option<&str>,
        #[case] accepted: bool,
    ) {
        let written = written.map(WrittenFence::new);
        let result = Fences::new("ours").refuse_older(Fence(7), written.as_ref());
        assert_eq!(result.is_ok(), accepted, "{result:?}");
    }

    #[test]
    fn a_fence_is_read_as_it_was_written() {
        let (ours, theirs) = (Fences::new("ours"), Fences::new("theirs"));
        let written = ours.format(Fence(7));
        assert_eq!((ours.read(Some(&written)), theirs.read(Some(&written))), (Some(Fence(7)), None));
    }
}
