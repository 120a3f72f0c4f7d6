//! The sessions and groups, before there are actors: who knows whom.

use super::{GROUP_SHARE, MOST_BLOCKED, MOST_FRIENDS, MOST_GROUPS};
use crate::experiments::actors::Random;

/// The number of no session.
pub const NOBODY: u32 = u32::MAX;

/// The lists of all sessions.
pub struct Population {
    /// The friends of each session and then its groups, one session after the other.
    pub numbers: Box<[u32]>,
    pub profiles: Vec<Profile>,
    /// The number of each group's subscribers.
    pub sizes: Vec<u32>,
}

/// The lists of a session.
#[derive(Clone, Copy)]
pub struct Profile {
    /// Where its friends begin in [`Population::numbers`].
    pub begin: u32,
    pub friends: u8,
    pub groups: u8,
    /// The rest is [`NOBODY`].
    pub blocked: [u32; MOST_BLOCKED],
}

impl Population {
    /// Draws all lists.
    pub fn of(sessions: usize) -> Population {
        let groups = (sessions / GROUP_SHARE).max(1);
        let (mut numbers, mut sizes) = (Vec::with_capacity(sessions * 64), vec![0; groups]);
        let profiles = (0..sessions).map(|session| draw(session, sessions, &mut numbers, &mut sizes)).collect();
        Population { numbers: numbers.into_boxed_slice(), profiles, sizes }
    }
}

fn draw(session: usize, sessions: usize, numbers: &mut Vec<u32>, sizes: &mut [u32]) -> Profile {
    let mut random = Random::of(session);
    let mut below = |bound: usize| random.below(bound as u64) as u32;
    let begin = numbers.len();
    let friends = 1 + below(MOST_FRIENDS);
    numbers.extend((0..friends).map(|_| below(sessions)));
    let own = numbers.len();
    for _ in 0..1 + below(MOST_GROUPS) {
        let group = below(sizes.len());
        if !numbers[own..].contains(&group) {
            numbers.push(group);
            sizes[group as usize] += 1;
        }
    }
    let mut blocked = [NOBODY; MOST_BLOCKED];
    let count = below(MOST_BLOCKED + 1) as usize;
    blocked[..count].fill_with(|| below(sessions));
    let groups = (numbers.len() - own) as u8;
    let begin = u32::try_from(begin).expect("fewer than four billion numbers");
    Profile { begin, friends: friends as u8, groups, blocked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_lengths_of_the_description() {
        let population = Population::of(1000);
        assert_eq!((population.profiles.len(), population.sizes.len()), (1000, 10));
        let mut end = 0;
        for profile in &population.profiles {
            assert_eq!(profile.begin, end);
            end += u32::from(profile.friends) + u32::from(profile.groups);
            assert!((1..=100).contains(&profile.friends) && (1..=10).contains(&profile.groups));
            assert!(profile.blocked.iter().all(|&session| session < 1000 || session == NOBODY));
        }
        assert_eq!(end as usize, population.numbers.len());
        let members: u32 = population.profiles.iter().map(|profile| u32::from(profile.groups)).sum();
        assert_eq!(population.sizes.iter().sum::<u32>(), members);
    }
}
