//! The open connections of a port, and which of them is closed to make room for a new one.

use std::{collections::BTreeMap, net::IpAddr};

use tokio_util::sync::CancellationToken;

/// How many connections one port serves at the same time.
pub(super) const CONNECTIONS: usize = 32;
/// How many of them one IP address may have. A kubelet probes with two, a Prometheus scrapes with
/// one.
pub(super) const PER_PEER: usize = 8;

/// Identifies a connection; no other gets the same ID.
pub(super) type Id = u64;

/// The open connections of one port.
#[derive(Debug, Default)]
pub(super) struct Slots {
    next: Id,
    open: BTreeMap<Id, Connection>,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    /// The connection has sent no complete request yet.
    is_silent: bool,
    close: CancellationToken,
}

impl Slots {
    /// Admits a new connection of `peer`. The returned token is cancelled when the connection has to
    /// be closed. A new connection always gets a slot, so that a client with a request is served
    /// rather than an older one without. If the peer has [`PER_PEER`] connections already, one of
    /// them is closed; otherwise, if all slots are taken, one of the peer with the most connections.
    /// Connections without a request are closed first, and of these the oldest.
    pub(super) fn admit(&mut self, peer: IpAddr) -> (Id, CancellationToken) {
        // An IPv4 address and the same address mapped into IPv6 are one peer.
        let peer = peer.to_canonical();
        let mut held = BTreeMap::<IpAddr, usize>::new();
        for connection in self.open.values() {
            *held.entry(connection.peer).or_default() += 1;
        }
        let of = |peer: &IpAddr| held.get(peer).copied().unwrap_or(0);
        let is_over_its_share = of(&peer) >= PER_PEER;
        if is_over_its_share || self.open.len() >= CONNECTIONS {
            let candidates = self.open.iter().filter(|(_, c)| !is_over_its_share || c.peer == peer);
            let victim = candidates
                .min_by_key(|(id, c)| (!c.is_silent, std::cmp::Reverse(of(&c.peer)), **id))
                .map(|(id, _)| *id);
            if let Some(closed) = victim.and_then(|id| self.open.remove(&id)) {
                closed.close.cancel();
            }
        }
        let (id, close) = (self.next, CancellationToken::new());
        self.next += 1;
        self.open.insert(id, Connection { peer, is_silent: true, close: close.clone() });
        (id, close)
    }

    /// Notes that a connection has sent a complete request.
    pub(super) fn request_received(&mut self, id: Id) {
        if let Some(connection) = self.open.get_mut(&id) {
            connection.is_silent = false;
        }
    }

    /// Frees the slot of a connection that is closed.
    pub(super) fn release(&mut self, id: Id) {
        self.open.remove(&id);
    }
}
