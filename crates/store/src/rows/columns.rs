//! The columns of a table, each with when it is written: one list for reads, inserts and updates.

/// The commands that write a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// When the row is inserted; later, if at all, by a command of its own.
    Once,
    /// With every change of the row. Such a column is in no index.
    Always,
    /// With a change that concerns it: it may be in an index.
    Seldom,
}

/// The names alone, in the same order.
pub(crate) const fn names<const N: usize>(columns: &[(&'static str, Written); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = columns[at].0;
        at += 1;
    }
    names
}

/// The names of those that are written at one of these times.
pub(crate) fn written(columns: &[(&'static str, Written)], when: &[Written]) -> Vec<&'static str> {
    columns.iter().filter(|(_, written)| when.contains(written)).map(|(name, _)| *name).collect()
}
