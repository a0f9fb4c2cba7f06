//! The columns of a table and the commands that write them: one list for reads, inserts and updates.

/// The commands that write a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnWrites {
    /// Written when the row is inserted; later, if at all, only by a separate command.
    Once,
    /// Written with every change of the row. Such a column must not be in an index.
    Always,
    /// Written only if its value changes, so that it may be in an index.
    Seldom,
}

/// The names of the columns, in the same order.
pub(crate) const fn names<const N: usize>(columns: &[(&'static str, ColumnWrites); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = columns[at].0;
        at += 1;
    }
    names
}

/// The names of the columns that are written at one of these times.
pub(crate) fn written(columns: &[(&'static str, ColumnWrites)], when: &[ColumnWrites]) -> Vec<&'static str> {
    columns.iter().filter(|(_, written)| when.contains(written)).map(|(name, _)| *name).collect()
}
