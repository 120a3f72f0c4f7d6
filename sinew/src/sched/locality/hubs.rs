//! Where hubs begin: far from each other.
//!
//! Hubs live long, allocate much and talk to many. Two of them under one cache, or at one node of memory, are in each
//! other's way.

use super::Nearest;
use crate::base::atomic::Mutex;
use crate::sched::deques::{Deques, Place, Side};

/// The number of hubs that began at each place, by its number.
#[derive(Default)]
struct Begun {
    nodes: Vec<u32>,
    caches: Vec<u32>,
    stations: Vec<u32>,
}

pub(super) struct Hubs {
    begun: Mutex<Begun>,
}

impl Default for Hubs {
    fn default() -> Self {
        Hubs { begun: Mutex::new(Begun::default()) }
    }
}

impl Hubs {
    /// Returns the place of a new hub: under the cache with the fewest hubs of the node with the fewest hubs. That is
    /// `here` if it can be, and otherwise the station there that has the fewest.
    pub(super) fn place(&self, deques: &Deques<Nearest>, here: Option<usize>) -> Place {
        let Some(topology) = deques.topology() else { return Place::Here(Side::Head) };
        let mut begun = self.begun.lock().unwrap();
        let of = |numbers: &Vec<u32>, index: usize| numbers.get(index).copied().unwrap_or(0);
        let taken = (0..deques.stations.used()).filter_map(|index| {
            let presence = deques.stations.get(index)?.presence();
            let cpu = presence.cpu();
            presence.is_taken().then(|| (topology.node_of(cpu), topology.cache_of(cpu).index(), index))
        });
        let fewest = taken.min_by_key(|&(node, cache, index)| {
            let hubs = (of(&begun.nodes, node), of(&begun.caches, cache));
            (hubs, Some(index) != here, of(&begun.stations, index))
        });
        let Some((node, cache, index)) = fewest else { return Place::Here(Side::Head) };
        count(&mut begun.nodes, node);
        count(&mut begun.caches, cache);
        count(&mut begun.stations, index);
        if Some(index) == here { Place::Here(Side::Head) } else { Place::Inbox(index) }
    }
}

fn count(numbers: &mut Vec<u32>, index: usize) {
    if numbers.len() <= index {
        numbers.resize(index + 1, 0);
    }
    numbers[index] = numbers[index].saturating_add(1);
}
