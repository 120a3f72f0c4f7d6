//! Keeps the reports few: a stall that has been reported a moment ago is only counted.

use super::report::StrandKind;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A stall of the same strand's site, in the same function, is reported again after this time.
const QUIET: Duration = Duration::from_secs(10);

/// The largest number of reports for one site in that time.
const MOST_PLACES: usize = 4;

/// Where a strand comes from: its kind, and the address of the place that spawned it or of the name of its type.
pub(super) type Site = (Option<StrandKind>, usize);

#[derive(Default)]
pub(super) struct Quiet(HashMap<Site, Spell>);

struct Spell {
    began: Instant,
    /// The functions that were reported.
    places: Vec<Option<String>>,
    unreported: u64,
}

impl Quiet {
    /// Says whether a stall at `site` may be reported, whatever function it is in. If not, counts it.
    pub(super) fn may_report_site(&mut self, site: Site, now: Instant) -> bool {
        let Some(spell) = self.0.get_mut(&site) else { return true };
        let may = now.saturating_duration_since(spell.began) >= QUIET || spell.places.len() < MOST_PLACES;
        spell.unreported += u64::from(!may);
        may
    }

    /// Says whether a stall at `site` in the function `place` is to be reported: then returns the number of those
    /// that were not, since the last one that was. If not, counts it.
    pub(super) fn may_report(&mut self, site: Site, place: Option<&str>, now: Instant) -> Option<u64> {
        let spell = self.0.entry(site).or_insert(Spell { began: now, places: Vec::new(), unreported: 0 });
        if now.saturating_duration_since(spell.began) >= QUIET {
            spell.began = now;
            spell.places.clear();
        }
        if spell.places.iter().any(|reported| reported.as_deref() == place) {
            spell.unreported += 1;
            return None;
        }
        spell.places.push(place.map(str::to_owned));
        Some(std::mem::take(&mut spell.unreported))
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_same_stall_is_counted_and_told_later() {
        let (mut quiet, now, site) = (Quiet::default(), Instant::now(), (Some(StrandKind::Task), 1));
        let places = ["one", "two"];
        assert_eq!(quiet.may_report(site, Some(places[0]), now), Some(0));
        assert_eq!(quiet.may_report(site, Some(places[0]), now), None);
        assert_eq!(quiet.may_report(site, Some(places[0]), now + QUIET / 2), None);
        assert_eq!(quiet.may_report(site, Some(places[1]), now), Some(2));
        assert_eq!(quiet.may_report((None, 0), Some(places[0]), now), Some(0));
        assert_eq!(quiet.may_report(site, Some(places[1]), now), None);
        assert_eq!(quiet.may_report(site, Some(places[0]), now + QUIET), Some(1));
    }

    #[test]
    fn a_site_is_reported_in_few_functions() {
        let (mut quiet, now, site) = (Quiet::default(), Instant::now(), (None, 1));
        for place in 0..MOST_PLACES {
            assert!(quiet.may_report_site(site, now));
            assert_eq!(quiet.may_report(site, Some(&place.to_string()), now), Some(0));
        }
        assert!(!quiet.may_report_site(site, now));
        assert!(quiet.may_report_site(site, now + QUIET));
        assert_eq!(quiet.may_report(site, None, now + QUIET), Some(1));
    }
}
