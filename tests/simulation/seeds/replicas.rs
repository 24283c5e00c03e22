//! The processes of the service in a life: their beginnings and their ends.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use sundown::{domain::Moment, runtime::Clock};

use super::play::{Play, Todo};

impl Play<'_> {
    pub(super) fn start(&mut self, replica: usize) {
        if self.replicas[replica].is_none() {
            self.starts += 1;
            let now = self.now();
            self.evidence.lives.push((replica, now, None));
            let own_node = self.own_node(replica);
            let node = own_node.as_ref().map(|node| format!("--node-name={node}"));
            let flags: Vec<&str> =
                self.plan.flags.iter().chain(&node).map(String::as_str).collect();
            let name = format!("sundown-{replica}-{}", self.starts);
            self.evidence.own_nodes.extend(own_node.map(|node| (name.clone(), node)));
            let ahead = self.plan.clocks.get(replica).copied().unwrap_or(0);
            let clock = if ahead == 0 {
                self.stage.clock
            } else {
                Clock::starting_at(now + SignedDuration::from_secs(ahead))
            };
            let process = self.stage.start_with_clock(&name, &flags, clock);
            if let Some(kill) = self.plan.kill.filter(|kill| kill.process == self.starts) {
                let (killer, clock, death) =
                    (process.killer(), self.stage.clock, Arc::clone(&self.death));
                self.tripwire.arm(&name, kill.at, move || {
                    killer();
                    *death.lock().unwrap() = Some((replica, clock.now()));
                });
            }
            self.replicas[replica] = Some(process);
        }
    }

    /// Puts the end of the process that was killed at a call down, and has the next one started.
    pub(super) fn note_death(&mut self) {
        let death = self.death.lock().unwrap().take();
        let (Some((replica, at)), Some(kill)) = (death, self.plan.kill) else { return };
        self.end_life(replica, at);
        self.replicas[replica] = None;
        self.then(at + Duration::from_secs(kill.down), Todo::Start(replica));
    }

    /// The node that a replica runs on. What drains it makes its leader step back.
    fn own_node(&self, replica: usize) -> Option<String> {
        let nodes = self.stage.world.nodes();
        let node = nodes.values().nth(replica % nodes.len().max(1)).cloned();
        node.filter(|_| self.plan.on_nodes)
    }

    pub(super) fn end_life(&mut self, replica: usize, at: Moment) {
        // A process is named by its replica and by how many have started before it.
        for (i, (_, _, end)) in self
            .evidence
            .lives
            .iter_mut()
            .enumerate()
            .filter(|(_, (r, _, end))| *r == replica && end.is_none())
        {
            *end = Some(at);
            self.evidence.ends.push((format!("sundown-{replica}-{}", i + 1), at));
        }
    }
}
