//! Waits between strands: owners of locks, and circles of strands that wait for each other.
//!
//! A live process goes on while it is read. So a wait and an owner count only if the strand that waits had
//! stopped before the owner was read, and is stopped with the same stamp afterwards: then there was a
//! moment at which both were true. A circle counts only if this holds for all of its strands at once. Its
//! owners are read between the two readings of its strands. While all of them are stopped, none can release
//! what it holds.

use crate::census::{Class, Moment, Strand, moments};
use crate::memory::{Batch, Memory, u32_at, u64_at};
use crate::offsets::Offsets;
use std::collections::{HashMap, HashSet};

/// The bits of a wait word, and of an owner word, that are not the tag.
const LOW: u64 = (1 << 56) - 1;

/// The numbers of the reasons that lead from strand to strand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reasons {
    pub(crate) mutex: Option<u64>,
    pub(crate) read: Option<u64>,
    pub(crate) write: Option<u64>,
    pub(crate) join_fibre: Option<u64>,
    pub(crate) join_task: Option<u64>,
    pub(crate) scope: Option<u64>,
    pub(crate) ask: Option<u64>,
    pub(crate) mail_room: Option<u64>,
}

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A fibre, by its id.
    Fibre(u64),
    /// A task, by its address.
    Task(u64),
    /// A kernel thread that runs no strand, by its number.
    Thread(u64),
}

/// A step of a circle: a strand, and what it waits for, which the next strand of the circle holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The place of the strand in the list of all.
    pub(crate) strand: usize,
    pub(crate) reason: u64,
    pub(crate) object: u64,
}

pub(crate) struct Waits<'a> {
    memory: &'a dyn Memory,
    offsets: &'a Offsets,
    reasons: Reasons,
    strands: &'a [Strand],
    /// Of the locks that strands wait for.
    owners: HashMap<u64, Owner>,
    /// The places of strands that others wait for.
    by_address: HashMap<u64, usize>,
    by_id: HashMap<u64, usize>,
    by_scope: HashMap<u64, Vec<usize>>,
    carriers: HashMap<u64, usize>,
}

pub(crate) fn reason_and_object(wait: u64) -> (u64, u64) {
    (wait >> 56, wait & LOW)
}

impl<'a> Waits<'a> {
    /// Reads the owners of all locks that stopped strands wait for.
    pub(crate) fn read(
        memory: &'a dyn Memory,
        offsets: &'a Offsets,
        reasons: Reasons,
        strands: &'a [Strand],
    ) -> Waits<'a> {
        let mut waits = Waits {
            memory,
            offsets,
            reasons,
            strands,
            owners: HashMap::new(),
            by_address: HashMap::new(),
            by_id: HashMap::new(),
            by_scope: HashMap::new(),
            carriers: HashMap::new(),
        };
        let waiting: Vec<usize> = (0..strands.len()).filter(|&place| waits.leads_on(place)).collect();
        let locks: Vec<(u64, u64)> = waiting.iter().map(|&place| reason_and_object(strands[place].wait)).collect();
        waits.read_owners(&locks);
        waits.find_strands(&locks);
        waits
    }

    /// Says whether a strand has stopped for something that another strand has.
    fn leads_on(&self, place: usize) -> bool {
        let strand = &self.strands[place];
        let (reason, _) = reason_and_object(strand.wait);
        let r = &self.reasons;
        let leading =
            [r.mutex, r.read, r.write, r.join_fibre, r.join_task, r.scope, r.ask, r.mail_room].contains(&Some(reason));
        self.offsets.is_stopped(strand.state) && leading
    }

    fn is_lock(&self, reason: u64) -> bool {
        [self.reasons.mutex, self.reasons.read, self.reasons.write].contains(&Some(reason))
    }

    fn read_owners(&mut self, waits: &[(u64, u64)]) {
        let locks: HashSet<(bool, u64)> = waits
            .iter()
            .filter(|(reason, _)| self.is_lock(*reason))
            .map(|&(reason, object)| (Some(reason) == self.reasons.mutex, object))
            .collect();
        let locks: Vec<(bool, u64)> = locks.into_iter().collect();
        for some in locks.chunks(4096) {
            let owners = read_owners(self.memory, self.offsets, some);
            for (&(_, lock), owner) in some.iter().zip(owners) {
                self.owners.extend(owner.map(|owner| (lock, owner)));
            }
        }
    }

    /// Finds the strands that others wait for.
    fn find_strands(&mut self, waits: &[(u64, u64)]) {
        let objects: HashSet<u64> = waits.iter().map(|&(_, object)| object).collect();
        let mut ids = HashSet::new();
        let mut addresses = HashSet::new();
        for owner in self.owners.values() {
            match *owner {
                Owner::Fibre(id) => _ = ids.insert(id),
                Owner::Task(address) => _ = addresses.insert(address),
                Owner::Thread(_) => {}
            }
        }
        for (place, strand) in self.strands.iter().enumerate() {
            if objects.contains(&strand.address) || addresses.contains(&strand.address) {
                self.by_address.insert(strand.address, place);
            }
            if strand.id != 0 && ids.contains(&strand.id) {
                self.by_id.insert(strand.id, place);
            }
            if strand.scope != 0 && objects.contains(&strand.scope) {
                self.by_scope.entry(strand.scope).or_default().push(place);
            }
            if strand.carried != 0 && objects.contains(&strand.carried) {
                self.carriers.insert(strand.carried, place);
            }
        }
    }

    /// Returns the owner of the lock that a strand waits for, if the strand still waits.
    pub(crate) fn owners_of_waiting(&self) -> HashMap<usize, Owner> {
        let waiting: Vec<(usize, Owner)> = (0..self.strands.len())
            .filter(|&place| self.leads_on(place))
            .filter_map(|place| {
                let (reason, object) = reason_and_object(self.strands[place].wait);
                Some((place, *self.owners.get(&object).filter(|_| self.is_lock(reason))?))
            })
            .collect();
        let mut owners = HashMap::new();
        for some in waiting.chunks(4096) {
            let places: Vec<usize> = some.iter().map(|&(place, _)| place).collect();
            let still = self.still_stopped(&places);
            owners.extend(some.iter().zip(still).filter(|(_, still)| *still).map(|(&known, _)| known));
        }
        owners
    }

    /// Says of each strand whether it has been stopped since it was first read.
    fn still_stopped(&self, places: &[usize]) -> Vec<bool> {
        if !self.memory.is_live() {
            return vec![true; places.len()];
        }
        let addresses: Vec<u64> = places.iter().map(|&place| self.strands[place].address).collect();
        let now = moments(self.memory, self.offsets, &addresses);
        let same = |(&place, now): (&usize, Option<Moment>)| {
            let strand = &self.strands[place];
            now.is_some_and(|now| {
                self.offsets.is_stopped(now.state) && (now.stamp, now.wait) == (strand.stamp, strand.wait)
            })
        };
        places.iter().zip(now).map(same).collect()
    }

    /// Returns the place of a strand that holds something.
    pub(crate) fn place_of(&self, owner: Owner) -> Option<usize> {
        match owner {
            Owner::Fibre(id) => self.by_id.get(&id).copied(),
            Owner::Task(address) => self.by_address.get(&address).copied(),
            Owner::Thread(_) => None,
        }
    }

    /// Returns the place of the fibre on which a mailbox runs that others ask.
    pub(crate) fn carrier_of(&self, mailbox: u64) -> Option<usize> {
        self.carriers.get(&mailbox).copied()
    }

    /// Returns the strands that have to go on before this one can.
    fn next(&self, place: usize) -> Vec<usize> {
        if !self.leads_on(place) {
            return Vec::new();
        }
        let (reason, object) = reason_and_object(self.strands[place].wait);
        let r = &self.reasons;
        let reason = Some(reason);
        if reason == r.join_fibre || reason == r.join_task {
            self.by_address.get(&object).copied().into_iter().collect()
        } else if reason == r.scope {
            self.by_scope.get(&object).cloned().unwrap_or_default()
        } else if reason == r.ask || reason == r.mail_room {
            self.carrier_of(object).into_iter().collect()
        } else {
            self.owners.get(&object).and_then(|&owner| self.place_of(owner)).into_iter().collect()
        }
    }

    /// Finds circles, each once, and looks again whether they are still there. Each begins with its oldest
    /// fibre.
    pub(crate) fn circles(&self) -> Vec<Vec<Step>> {
        let mut found = self.all_circles();
        found.retain(|circle| self.is_still_there(circle));
        found
    }

    fn all_circles(&self) -> Vec<Vec<Step>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            OnPath,
            Done,
        }
        let mut marks = vec![Mark::New; self.strands.len()];
        let mut circles = Vec::new();
        for start in 0..self.strands.len() {
            if marks[start] != Mark::New || !self.leads_on(start) {
                continue;
            }
            // The strands from `start` on, each with those that are still to be visited from it.
            let mut path = vec![(start, self.next(start))];
            marks[start] = Mark::OnPath;
            while let Some((place, next)) = path.last_mut() {
                let Some(next) = next.pop() else {
                    marks[*place] = Mark::Done;
                    path.pop();
                    continue;
                };
                match marks[next] {
                    Mark::Done => {}
                    Mark::New => {
                        marks[next] = Mark::OnPath;
                        path.push((next, self.next(next)));
                    }
                    Mark::OnPath => {
                        let from = path.iter().position(|(place, _)| *place == next).unwrap_or(0);
                        let mut circle: Vec<Step> = path[from..].iter().map(|(place, _)| self.step(*place)).collect();
                        let oldest = (0..circle.len()).min_by_key(|&number| self.strands[circle[number].strand].id);
                        circle.rotate_left(oldest.unwrap_or(0));
                        circles.push(circle);
                    }
                }
            }
        }
        circles
    }

    fn step(&self, strand: usize) -> Step {
        let (reason, object) = reason_and_object(self.strands[strand].wait);
        Step { strand, reason, object }
    }

    /// Looks whether a circle is there at one moment: its locks have the same owners, and then its strands
    /// are still stopped.
    fn is_still_there(&self, circle: &[Step]) -> bool {
        let is_mutex = |reason| Some(reason) == self.reasons.mutex;
        let locks: Vec<(bool, u64)> = circle
            .iter()
            .filter(|step| self.is_lock(step.reason))
            .map(|step| (is_mutex(step.reason), step.object))
            .collect();
        let owners = read_owners(self.memory, self.offsets, &locks);
        let same = locks.iter().zip(owners).all(|((_, lock), owner)| owner == self.owners.get(lock).copied());
        let places: Vec<usize> = circle.iter().map(|step| step.strand).collect();
        same && self.still_stopped(&places).into_iter().all(|still| still)
    }

    /// Says whether a circle is a deadlock for certain. A task may wait for more than its word says, and a wait
    /// with a deadline or a time limit ends.
    pub(crate) fn is_certain(&self, circle: &[Step]) -> bool {
        circle.iter().all(|step| {
            let strand = &self.strands[step.strand];
            strand.kind.class == Class::Fibre && strand.carries == 0
        })
    }
}

/// Reads the owners of locks: of a mutex, or of a lock for readers and writers. `None` if there is none.
fn read_owners(memory: &dyn Memory, offsets: &Offsets, locks: &[(bool, u64)]) -> Vec<Option<Owner>> {
    let o = offsets;
    let places = |is_mutex| {
        if is_mutex {
            (o.mutex_word, o.mutex_locked, o.mutex_owner)
        } else {
            (o.rwlock_word, o.rwlock_writing, o.rwlock_owner)
        }
    };
    let mut batch = Batch::new();
    for &(is_mutex, lock) in locks {
        let (word, _, owner) = places(is_mutex);
        batch.add(lock, (word + 4).max(owner + 8));
    }
    batch.read(memory);
    let owner = |(number, &(is_mutex, _)): (usize, &(bool, u64))| {
        let (word, locked, owner) = places(is_mutex);
        let bytes = batch.get(number)?;
        if u32_at(bytes, word)? as usize & locked == 0 {
            return None;
        }
        let owner = u64_at(bytes, owner).filter(|&owner| owner != 0)?;
        let (tag, low) = ((owner >> 56) as usize, owner & LOW);
        if tag == o.owner_fibre {
            Some(Owner::Fibre(low))
        } else if tag == o.owner_task {
            Some(Owner::Task(low))
        } else if tag == o.owner_thread {
            Some(Owner::Thread(low))
        } else {
            None
        }
    };
    locks.iter().enumerate().map(owner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::tests::{offsets, stopped};
    use crate::memory::Unreadable;
    use crate::memory::fake::Fake;

    const REASONS: Reasons = Reasons {
        mutex: Some(3),
        read: Some(4),
        write: Some(5),
        join_fibre: Some(16),
        join_task: Some(17),
        scope: Some(18),
        ask: Some(25),
        mail_room: None,
    };
    const MUTEX: u64 = 3 << 56;
    const WRITE: u64 = 5 << 56;
    const JOIN: u64 = 16 << 56;
    const SCOPE: u64 = 18 << 56;
    const ASK: u64 = 25 << 56;

    fn strand_at(number: u64) -> u64 {
        0x1_0000 + 0x100 * number
    }

    fn lock_at(number: u64) -> u64 {
        0x5000 + 16 * number
    }

    /// A process with these strands, whose numbers are their places from 1 on, and locks that are held by the
    /// owner of the same place.
    fn process(strands: &[Strand], owners: &[u64]) -> Fake {
        let mut memory = Fake::default();
        memory.region(0x5000, 0x1000);
        memory.region(0x1_0000, 0x1_0000);
        for strand in strands {
            memory.set_u64(strand.address, strand.wait);
            memory.set_u64(strand.address + 8, strand.stamp);
            memory.set(strand.address + 20, &strand.state.to_le_bytes());
        }
        for (number, &owner) in owners.iter().enumerate() {
            memory.set(lock_at(number as u64), &3_u32.to_le_bytes());
            memory.set_u64(lock_at(number as u64) + 8, owner);
        }
        memory
    }

    fn fibre(id: u64, wait: u64) -> Strand {
        stopped(strand_at(id), Class::Fibre, id, wait)
    }

    fn circles(memory: &dyn Memory, strands: &[Strand]) -> Vec<Vec<u64>> {
        let offsets = offsets();
        let waits = Waits::read(memory, &offsets, REASONS, strands);
        let ids = |circle: &Vec<Step>| circle.iter().map(|step| strands[step.strand].id).collect();
        waits.circles().iter().map(ids).collect()
    }

    #[test]
    fn three_who_hold_what_the_next_one_wants_are_a_circle_and_those_behind_them_are_not() {
        let strands = [
            fibre(1, MUTEX | lock_at(1)),
            fibre(2, WRITE | lock_at(2)),
            fibre(3, MUTEX | lock_at(0)),
            // Waits for the first lock, too.
            fibre(4, MUTEX | lock_at(0)),
        ];
        let memory = process(&strands, &[1, 2, 3]);
        assert_eq!(circles(&memory, &strands), [[1, 2, 3]]);
    }

    #[test]
    fn a_fibre_that_waits_for_its_own_lock_is_a_circle() {
        let strands = [fibre(1, MUTEX | lock_at(0))];
        assert_eq!(circles(&process(&strands, &[1]), &strands), [[1]]);
        assert!(circles(&process(&strands, &[0]), &strands).is_empty(), "a lock that is being handed over");
        assert!(circles(&process(&strands, &[2 << 56 | 1]), &strands).is_empty(), "a kernel thread of that number");
    }

    #[test]
    fn joins_scopes_and_questions_are_followed() {
        // 1 waits for its scope, in which 2 is; 2 joins 3; 3 asks a mailbox that 4 carries; 4 waits for a lock of 1.
        let mut strands = vec![
            fibre(1, SCOPE | 0x77),
            fibre(2, JOIN | strand_at(3)),
            fibre(3, ASK | 0xabc0),
            fibre(4, MUTEX | lock_at(0)),
        ];
        strands[1].scope = 0x77;
        strands[3].carried = 0xabc0;
        let memory = process(&strands, &[1]);
        assert_eq!(circles(&memory, &strands), [[1, 2, 3, 4]]);
        strands[2].state = 0;
        assert!(circles(&process(&strands, &[1]), &strands).is_empty(), "3 does not wait");
    }

    #[test]
    fn a_task_or_a_deadline_makes_a_circle_uncertain() {
        let offsets = offsets();
        let mut strands = [fibre(1, MUTEX | lock_at(0)), fibre(2, MUTEX | lock_at(0))];
        let memory = process(&strands, &[1 << 56 | strand_at(2)]);
        strands[1] = stopped(strand_at(2), Class::Task, 0, MUTEX | lock_at(0));
        let waits = Waits::read(&memory, &offsets, REASONS, &strands);
        let found = waits.circles();
        assert!(found.len() == 1 && !waits.is_certain(&found[0]));
        let mut strands = [fibre(1, MUTEX | lock_at(0))];
        let memory = process(&strands, &[1]);
        assert!(Waits::read(&memory, &offsets, REASONS, &strands).is_certain(&[Step {
            strand: 0,
            reason: 3,
            object: 0
        }]));
        strands[0].carries = 1;
        assert!(!Waits::read(&memory, &offsets, REASONS, &strands).is_certain(&[Step {
            strand: 0,
            reason: 3,
            object: 0
        }]));
    }

    /// Memory that changes after some reads.
    struct Changing {
        before: Fake,
        later: Fake,
        after: usize,
    }

    impl Memory for Changing {
        fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Unreadable> {
            let memory = if self.before.reads.get() < self.after { &self.before } else { &self.later };
            memory.read(address, into)
        }

        fn is_live(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_circle_that_is_gone_when_it_is_looked_at_again_is_none() {
        let strands = [fibre(1, MUTEX | lock_at(1)), fibre(2, MUTEX | lock_at(0))];
        // The owners are read first, one read for each lock.
        let changing = |later: Fake| Changing { before: process(&strands, &[1, 2]), later, after: 2 };
        assert_eq!(circles(&changing(process(&strands, &[1, 2])), &strands).len(), 1);
        assert!(circles(&changing(process(&strands, &[0, 2])), &strands).is_empty(), "another owner");
        let changes: [fn(&mut Strand); 3] =
            [|strand| strand.stamp = 2, |strand| strand.state = 0, |strand| strand.wait = MUTEX];
        for change in changes {
            let mut later = strands.clone();
            change(&mut later[1]);
            assert!(circles(&changing(process(&later, &[1, 2])), &strands).is_empty());
        }
    }

    #[test]
    fn an_owner_counts_only_for_a_strand_that_still_waits() {
        let offsets = offsets();
        let strands = [fibre(1, MUTEX | lock_at(0)), fibre(2, MUTEX | lock_at(0))];
        let mut later = strands.clone();
        later[1].stamp = 5;
        let memory = Changing { before: process(&strands, &[7]), later: process(&later, &[7]), after: 1 };
        let owners = Waits::read(&memory, &offsets, REASONS, &strands).owners_of_waiting();
        assert_eq!(owners, HashMap::from([(0, Owner::Fibre(7))]));
        let free = process(&strands, &[0]);
        assert!(Waits::read(&free, &offsets, REASONS, &strands).owners_of_waiting().is_empty(), "it is handed over");
        let mut free = process(&strands, &[7]);
        free.set(lock_at(0), &0_u32.to_le_bytes());
        assert!(Waits::read(&free, &offsets, REASONS, &strands).owners_of_waiting().is_empty(), "it is not locked");
    }
}
