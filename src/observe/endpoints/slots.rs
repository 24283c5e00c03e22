//! Which connections of a port are open, and which one is closed when another comes.

use std::{collections::BTreeMap, net::IpAddr};

use tokio_util::sync::CancellationToken;

/// Connections that one port serves at once.
pub(super) const CONNECTIONS: usize = 32;
/// Connections that one address may hold of them. A kubelet probes with two, a Prometheus scrapes
/// with one.
pub(super) const PER_PEER: usize = 8;

/// Names a connection; never used again.
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
    /// It has sent no complete request yet.
    is_silent: bool,
    close: CancellationToken,
}

impl Slots {
    /// Takes in a connection of `peer`; the token ends when it is to be closed. A newcomer always
    /// gets a slot: who asks now is served rather than who came earlier and asks nothing. Where the
    /// peer holds its share already, one of its own connections is closed for it; where all slots
    /// are taken, one of the peer that holds most. Silent ones are closed first, of these the
    /// oldest.
    pub(super) fn admit(&mut self, peer: IpAddr) -> (Id, CancellationToken) {
        // One machine is one peer, whether it comes by IPv4 or by IPv4 mapped into IPv6.
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

    /// It has sent a complete request.
    pub(super) fn has_asked(&mut self, id: Id) {
        if let Some(connection) = self.open.get_mut(&id) {
            connection.is_silent = false;
        }
    }

    /// It is closed.
    pub(super) fn release(&mut self, id: Id) {
        self.open.remove(&id);
    }
}
