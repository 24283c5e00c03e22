//! What becomes of a drain whose record a person deletes.

/// How often a person has deleted the record of a drain. A person may delete the record by mistake, so it is written back once.
/// A person who deletes it again wants the drain to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordDeletion {
    /// Nobody has deleted the record.
    #[default]
    Never,
    /// The record was deleted and is being written back.
    BeingRestored,
    /// The record was deleted once and is on the Node again.
    Restored,
    /// The drain has ended: its record is never written back.
    Final,
}

/// What a drain does when its Node shows no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDeletion {
    /// It writes the record back.
    WriteBack,
    /// It waits: the record is being written back, or the drain has ended.
    Nothing,
    /// It ends as if a person had asked for the release of the node.
    EndDrain,
}

impl RecordDeletion {
    /// The Node shows no record, although it still has Sundown's taint.
    pub const fn deleted(&mut self) -> OnDeletion {
        let (next, what) = match *self {
            Self::Never => (Self::BeingRestored, OnDeletion::WriteBack),
            Self::Restored => (Self::Final, OnDeletion::EndDrain),
            same => (same, OnDeletion::Nothing),
        };
        *self = next;
        what
    }

    /// The Node shows an open record: the one that was written back, or a fresh one.
    pub const fn seen(&mut self) {
        if matches!(self, Self::BeingRestored) {
            *self = Self::Restored;
        }
    }

    /// The Node shows that its drain has ended.
    pub const fn ended(&mut self) {
        *self = Self::Final;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a Node shows, one look after the other: `+` an open record, `-` none, `!` the end of the drain.
    fn looks(text: &str) -> Vec<OnDeletion> {
        let mut deletion = RecordDeletion::default();
        let look = |c| match c {
            '+' => {
                deletion.seen();
                None
            }
            '!' => {
                deletion.ended();
                None
            }
            _ => Some(deletion.deleted()),
        };
        text.chars().filter_map(look).collect()
    }

    #[test]
    fn a_record_is_written_back_once_and_the_second_deletion_ends_the_drain() {
        use OnDeletion::{EndDrain, Nothing, WriteBack};
        for (text, expected) in [
            ("+++", vec![]),
            ("+-", vec![WriteBack]),
            // The index shows the Node again before the write has had its effect.
            ("+---", vec![WriteBack, Nothing, Nothing]),
            ("+-+-", vec![WriteBack, EndDrain]),
            ("+-+-+-", vec![WriteBack, EndDrain, Nothing]),
            ("+-++--", vec![WriteBack, EndDrain, Nothing]),
            ("+!-", vec![Nothing]),
            ("+-!-+-", vec![WriteBack, Nothing, Nothing]),
        ] {
            assert_eq!(looks(text), expected, "{text}");
        }
    }
}
