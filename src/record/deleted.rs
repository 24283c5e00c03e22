//! What follows if a person deletes the record of a drain, and for any other Node without a record.

/// How often a person has deleted the record of a drain. The first deletion may be a mistake, so
/// the record is written back. The second deletion ends the drain.
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
        let (next, reaction) = match *self {
            Self::Never => (Self::BeingRestored, OnDeletion::WriteBack),
            Self::Restored => (Self::Final, OnDeletion::EndDrain),
            same => (same, OnDeletion::Nothing),
        };
        *self = next;
        reaction
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

/// A Node without a record, as the leader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingRecord {
    /// The record that the leader holds for the Node.
    pub held: HeldRecord,
    /// The Node has Sundown's taint. A person who deletes the record by mistake does not remove the
    /// taint. A person who restores the Node does.
    pub has_taint: bool,
    /// The node selector matches the Node, and it has no annotation `sundown.dev/ignore`.
    pub is_managed: bool,
    /// The leader is writing the record back, and the Node does not show the record yet.
    pub is_being_restored: bool,
}

/// The record that a leader holds for a Node without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldRecord {
    /// The leader holds no record.
    None,
    /// The record of the node's drain.
    Drain {
        /// The drain goes on, or it has ended and a lifecycle action is still to be completed.
        is_pending: bool,
    },
    /// The record of an earlier boot of the machine. Auto Scaling is being asked whether one of its
    /// actions is open, and no drain has begun.
    Doubted,
    /// The record of the same instance: from a deleted Node object, or from this one before the
    /// leader's term.
    OfInstance {
        /// The record still applies to the Node: [`super::reregister`] would write it.
        is_valid: bool,
    },
}

/// What a leader does about a Node without a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMissingRecord {
    /// It does nothing.
    Nothing,
    /// It ends the drain and completes its lifecycle actions: another leader or a person has put
    /// the Node back, or Sundown no longer manages it.
    EndDrain,
    /// A person has deleted the record: [`RecordDeletion::deleted`] decides what follows.
    CountDeletion,
    /// It writes the record back, which a person deleted while nobody led. If the machine has
    /// booted since, the record is void then, and the Node is restored.
    WriteBack,
    /// It writes record, cordon and taint on a new Node object: the instance has registered again.
    Register,
    /// It reports that the record of a Node with Sundown's taint is lost.
    ReportLost,
}

impl MissingRecord {
    /// Decides what the leader does.
    #[must_use]
    pub const fn decide(self) -> OnMissingRecord {
        match self.held {
            HeldRecord::Drain { .. } if !self.has_taint => OnMissingRecord::EndDrain,
            HeldRecord::Drain { is_pending: true } if self.is_managed => {
                OnMissingRecord::CountDeletion
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
            // Also a record that no longer applies: it shows what Sundown has set on the Node.
            HeldRecord::OfInstance { .. } if self.has_taint => OnMissingRecord::WriteBack,
            HeldRecord::OfInstance { is_valid: true } => OnMissingRecord::Register,
            HeldRecord::None if self.has_taint => OnMissingRecord::ReportLost,
            // If Sundown no longer manages the Node, its drain ends for that reason.
            HeldRecord::Drain { .. }
            | HeldRecord::OfInstance { is_valid: false }
            | HeldRecord::None => OnMissingRecord::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a leader does about a Node without a record. `facts`: `t` if it has the taint, `u` if
    /// it is not managed, `w` if its record is being written back.
    fn about(held: HeldRecord, facts: &str) -> OnMissingRecord {
        let missing = MissingRecord {
            held,
            has_taint: facts.contains('t'),
            is_managed: !facts.contains('u'),
            is_being_restored: facts.contains('w'),
        };
        missing.decide()
    }

    #[test]
    fn a_missing_record_is_written_back_if_a_person_deleted_it_and_reported_if_the_leader_has_none()
    {
        use HeldRecord::{Doubted, Drain, None, OfInstance};
        use OnMissingRecord::{CountDeletion, EndDrain, Nothing, Register, ReportLost, WriteBack};
        let (pending, over) = (Drain { is_pending: true }, Drain { is_pending: false });
        let (valid, void) = (OfInstance { is_valid: true }, OfInstance { is_valid: false });
        // A managed Node with the taint, without it, with it while the record is being written
        // back. Then the same for a Node that is not managed.
        for (held, managed, unmanaged) in [
            (None, [ReportLost, Nothing, Nothing], [Nothing, Nothing, Nothing]),
            (pending, [CountDeletion, EndDrain, CountDeletion], [Nothing, EndDrain, Nothing]),
            (over, [Nothing, EndDrain, Nothing], [Nothing, EndDrain, Nothing]),
            (Doubted, [CountDeletion, EndDrain, CountDeletion], [EndDrain, EndDrain, EndDrain]),
            (valid, [WriteBack, Register, Nothing], [Nothing, Nothing, Nothing]),
            (void, [WriteBack, Nothing, Nothing], [Nothing, Nothing, Nothing]),
        ] {
            assert_eq!(
                ["t", "", "tw"].map(|facts| about(held, facts)),
                managed,
                "{held:?}, managed"
            );
            assert_eq!(
                ["tu", "u", "twu"].map(|facts| about(held, facts)),
                unmanaged,
                "{held:?}, not managed"
            );
        }
    }

    #[test]
    fn a_deleted_record_is_written_back_once_although_the_node_stays_without_it_for_a_while() {
        let mut deletion = RecordDeletion::default();
        let mut look = || match about(HeldRecord::Drain { is_pending: true }, "tw") {
            OnMissingRecord::CountDeletion => Some(deletion.deleted()),
            _ => None,
        };
        assert_eq!([look(), look()], [Some(OnDeletion::WriteBack), Some(OnDeletion::Nothing)]);
    }

    /// What a drain does when its Node shows, one after the other: `+` an open record, `-` none,
    /// `!` the end of the drain.
    fn reactions(text: &str) -> Vec<OnDeletion> {
        let mut deletion = RecordDeletion::default();
        let reaction = |c| match c {
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
        text.chars().filter_map(reaction).collect()
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
            assert_eq!(reactions(text), expected, "{text}");
        }
    }
}
