//! What becomes of a drain whose record a person deletes, and of any other Node without a record.

/// How often a person has deleted the record of a drain. A person may delete the record by mistake,
/// so it is written back once. A person who deletes it again wants the drain to end.
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

/// A Node that shows no record, as its leader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingRecord {
    /// What the leader holds of the Node.
    pub held: HeldRecord,
    /// The Node has Sundown's taint. A person who deletes the record by mistake leaves it; one who
    /// puts the node back removes it.
    pub has_taint: bool,
    /// The node selector takes the Node, and nobody asked to leave it alone.
    pub is_managed: bool,
    /// The leader is writing the record back, and the Node does not show that yet.
    pub is_being_restored: bool,
}

/// The record that a leader holds of a Node that shows none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldRecord {
    /// The leader holds no record.
    None,
    /// The record of the node's drain.
    Drain {
        /// The drain goes on, or it has ended and a lifecycle action waits for its completion.
        is_pending: bool,
    },
    /// The record of an earlier boot of the machine. Auto Scaling is being asked whether one of its
    /// hooks is open, and no drain has begun.
    Doubted,
    /// The record of the same instance: of a Node object that was deleted, or of this one before
    /// the leader's term.
    OfInstance {
        /// The record still applies to the Node: [`super::reregister`] would write it.
        is_valid: bool,
    },
}

/// What a leader does about a Node that shows no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMissingRecord {
    /// Nothing.
    Nothing,
    /// It ends the drain, and completes what the record owes: somebody else has put the node back,
    /// or took it away from Sundown.
    EndDrain,
    /// A person has deleted the record: [`RecordDeletion::deleted`] says what follows.
    CountDeletion,
    /// It writes the record back: a person deleted it while nobody led.
    WriteBack,
    /// The instance has registered again: it writes record, cordon and taint on the new Node
    /// object.
    Register,
    /// It reports a Node with Sundown's taint whose record nobody knows.
    ReportLost,
}

impl MissingRecord {
    /// What the leader does.
    #[must_use]
    pub const fn decide(self) -> OnMissingRecord {
        match self.held {
            HeldRecord::Drain { .. } if !self.has_taint => OnMissingRecord::EndDrain,
            HeldRecord::Drain { is_pending: true } if self.is_managed => {
                OnMissingRecord::CountDeletion
            }
            // The drain of a Node that Sundown does not manage any more ends for that reason.
            HeldRecord::Drain { .. } | HeldRecord::OfInstance { is_valid: false } => {
                OnMissingRecord::Nothing
            }
            // Without a drain, nothing else would end the heartbeats of the doubted record.
            HeldRecord::Doubted if self.has_taint && self.is_managed => {
                OnMissingRecord::CountDeletion
            }
            HeldRecord::Doubted => OnMissingRecord::EndDrain,
            HeldRecord::None | HeldRecord::OfInstance { .. }
                if self.is_being_restored || !self.is_managed =>
            {
                OnMissingRecord::Nothing
            }
            HeldRecord::OfInstance { is_valid: true } if self.has_taint => {
                OnMissingRecord::WriteBack
            }
            HeldRecord::OfInstance { is_valid: true } => OnMissingRecord::Register,
            HeldRecord::None if self.has_taint => OnMissingRecord::ReportLost,
            HeldRecord::None => OnMissingRecord::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a leader does about a Node without a record. `t`: it has the taint, `u`: it is not
    /// managed, `w`: its record is being written back.
    fn about(held: HeldRecord, marks: &str) -> OnMissingRecord {
        let missing = MissingRecord {
            held,
            has_taint: marks.contains('t'),
            is_managed: !marks.contains('u'),
            is_being_restored: marks.contains('w'),
        };
        missing.decide()
    }

    #[test]
    fn a_missing_record_is_written_back_if_a_person_deleted_it_and_reported_only_if_no_leader_knows_it()
     {
        use HeldRecord::{Doubted, Drain, None, OfInstance};
        use OnMissingRecord::{CountDeletion, EndDrain, Nothing, Register, ReportLost, WriteBack};
        let (pending, over) = (Drain { is_pending: true }, Drain { is_pending: false });
        let (valid, void) = (OfInstance { is_valid: true }, OfInstance { is_valid: false });
        // With the taint, without it, with it and being written back; the same of a Node that is
        // not managed.
        for (held, managed, unmanaged) in [
            (None, [ReportLost, Nothing, Nothing], [Nothing, Nothing, Nothing]),
            (pending, [CountDeletion, EndDrain, CountDeletion], [Nothing, EndDrain, Nothing]),
            (over, [Nothing, EndDrain, Nothing], [Nothing, EndDrain, Nothing]),
            (Doubted, [CountDeletion, EndDrain, CountDeletion], [EndDrain, EndDrain, EndDrain]),
            (valid, [WriteBack, Register, Nothing], [Nothing, Nothing, Nothing]),
            (void, [Nothing, Nothing, Nothing], [Nothing, Nothing, Nothing]),
        ] {
            assert_eq!(
                ["t", "", "tw"].map(|marks| about(held, marks)),
                managed,
                "{held:?}, managed"
            );
            assert_eq!(
                ["tu", "u", "twu"].map(|marks| about(held, marks)),
                unmanaged,
                "{held:?}, not managed"
            );
        }
    }

    #[test]
    fn the_record_of_a_drain_that_a_person_deleted_is_written_back_once_although_the_node_shows_none_for_a_while()
     {
        let mut deletion = RecordDeletion::default();
        let mut look = || match about(HeldRecord::Drain { is_pending: true }, "tw") {
            OnMissingRecord::CountDeletion => Some(deletion.deleted()),
            _ => None,
        };
        assert_eq!([look(), look()], [Some(OnDeletion::WriteBack), Some(OnDeletion::Nothing)]);
    }

    /// What a Node shows, one look after the other: `+` an open record, `-` none, `!` the end of
    /// the drain.
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
