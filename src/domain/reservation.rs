//! Capacity Reservations.

use std::{fmt, str::FromStr, sync::Arc};

/// The id of a Capacity Reservation or Capacity Block: `cr-` and lower-case hexadecimal digits. EC2
/// gives 17 of them; 8 to 32 are read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(Arc<str>);

/// The text is not the id of a Capacity Reservation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a Capacity Reservation id (expected cr- and hexadecimal digits)")]
pub struct NotAReservationId(pub String);

impl ReservationId {
    /// The id as AWS writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ReservationId {
    type Err = NotAReservationId;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let hex = s.strip_prefix("cr-").unwrap_or_default();
        let digits = hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if digits && (8..=32).contains(&hex.len()) {
            Ok(Self(s.into()))
        } else {
            Err(NotAReservationId(s.chars().take(64).collect()))
        }
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
