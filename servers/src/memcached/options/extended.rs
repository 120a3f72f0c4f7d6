//! memcached's extended options: `-o`.

use std::fmt::Display;
use std::str::FromStr;

/// The settings that `-o` chooses, and that `lru`, `lru_crawler` and `slabs` change later.
///
/// Many of them are about things that do not exist here: classes of sizes that take pages from each
/// other, and segments of an order of use. Those numbers are kept, and `stats settings` shows them.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Extended {
    pub maxconns_fast: bool,
    pub hashpower: u32,
    pub slab_reassign: bool,
    pub slab_automove: u32,
    pub slab_automove_ratio: f64,
    pub slab_automove_window: u32,
    pub slab_automove_freeratio: f64,
    /// In bytes. The value of a larger item is never taken for a number.
    pub slab_chunk_max: u32,
    /// Whether clients can start a search for expired items.
    pub lru_crawler: bool,
    pub lru_crawler_sleep: u32,
    pub lru_crawler_tocrawl: u32,
    pub tail_repair_time: u32,
    pub hash_algorithm: &'static str,
    /// Whether the server searches for expired items on its own.
    pub lru_maintainer: bool,
    pub lru_segmented: bool,
    pub hot_lru_pct: u32,
    pub warm_lru_pct: u32,
    pub hot_max_factor: f64,
    pub warm_max_factor: f64,
    /// Whether items that expire within `temporary_ttl` seconds are kept from eviction.
    pub temp_lru: bool,
    pub temporary_ttl: u32,
    /// In seconds; 0 is never.
    pub idle_timeout: u32,
    /// In kilobytes.
    pub watcher_logbuf_size: u32,
    /// In kilobytes.
    pub worker_logbuf_size: u32,
    /// In megabytes.
    pub read_buf_mem_limit: u32,
    pub track_sizes: bool,
}

impl Default for Extended {
    fn default() -> Extended {
        Extended {
            maxconns_fast: true,
            hashpower: 0,
            slab_reassign: true,
            slab_automove: 1,
            slab_automove_ratio: 0.8,
            slab_automove_window: 30,
            slab_automove_freeratio: 0.01,
            slab_chunk_max: 512 * 1024,
            lru_crawler: true,
            lru_crawler_sleep: 100,
            lru_crawler_tocrawl: 0,
            tail_repair_time: 0,
            hash_algorithm: "murmur3",
            lru_maintainer: true,
            lru_segmented: true,
            hot_lru_pct: 20,
            warm_lru_pct: 40,
            hot_max_factor: 0.2,
            warm_max_factor: 2.0,
            temp_lru: false,
            temporary_ttl: 61,
            idle_timeout: 0,
            watcher_logbuf_size: 256,
            worker_logbuf_size: 64,
            read_buf_mem_limit: 0,
            track_sizes: false,
        }
    }
}

impl Extended {
    /// Applies these words, one after the other.
    ///
    /// # Errors
    /// A word that is none of memcached's, or a number that cannot be parsed.
    pub fn parse(words: &[String]) -> Result<Extended, String> {
        let mut extended = Extended::default();
        for word in words.iter().filter(|word| !word.is_empty()) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            extended.choose(name, value)?;
        }
        Ok(extended)
    }

    fn choose(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        match name {
            "maxconns_fast" | "no_maxconns_fast" => self.maxconns_fast = is_on(name),
            "hashpower" => self.hashpower = number(name, value, 12..=32)?,
            "no_hashexpand" | "modern" | "inline_ascii_resp" | "no_inline_ascii_resp" => {}
            "relaxed_privileges" | "drop_privileges" | "no_drop_privileges" | "resp_obj_mem_limit" => {}
            "no_modern" => {
                if self.slab_chunk_max == Extended::default().slab_chunk_max {
                    self.slab_chunk_max = 1 << 20;
                }
                (self.slab_reassign, self.slab_automove) = (false, 0);
                (self.maxconns_fast, self.lru_segmented) = (false, false);
                (self.lru_crawler, self.lru_maintainer) = (false, false);
                self.hash_algorithm = "jenkins";
            }
            "slab_reassign" | "no_slab_reassign" => self.slab_reassign = is_on(name),
            "no_slab_automove" => self.slab_automove = 0,
            "slab_automove" => self.slab_automove = value.map_or(Ok(1), |_| number(name, value, 0..=2))?,
            "slab_automove_ratio" => self.slab_automove_ratio = fraction(name, value)?,
            "slab_automove_window" => self.slab_automove_window = number(name, value, 3..=u32::MAX)?,
            "slab_automove_freeratio" => self.slab_automove_freeratio = fraction(name, value)?,
            "slab_chunk_max" => self.slab_chunk_max = number(name, value, 1..=1 << 20)?,
            "no_chunked_items" => self.slab_chunk_max = 1 << 20,
            "lru_crawler" | "no_lru_crawler" => self.lru_crawler = is_on(name),
            "lru_crawler_sleep" => self.lru_crawler_sleep = number(name, value, 0..=1_000_000)?,
            "lru_crawler_tocrawl" => self.lru_crawler_tocrawl = number(name, value, 0..=u32::MAX)?,
            "tail_repair_time" => self.tail_repair_time = number(name, value, 10..=u32::MAX)?,
            "hash_algorithm" => {
                let known = ["jenkins", "murmur3", "xxh3"].into_iter().find(|known| Some(*known) == value);
                self.hash_algorithm = known.ok_or("-o hash_algorithm must be jenkins, murmur3 or xxh3")?;
            }
            "lru_maintainer" | "no_lru_maintainer" => {
                self.lru_maintainer = is_on(name);
                self.lru_segmented = self.lru_maintainer;
            }
            "hot_lru_pct" => self.hot_lru_pct = number(name, value, 1..=79)?,
            "warm_lru_pct" => self.warm_lru_pct = number(name, value, 1..=79)?,
            "hot_max_factor" => self.hot_max_factor = fraction(name, value)?,
            "warm_max_factor" => self.warm_max_factor = fraction(name, value)?,
            "temporary_ttl" => (self.temp_lru, self.temporary_ttl) = (true, number(name, value, 0..=u32::MAX)?),
            "idle_timeout" => self.idle_timeout = number(name, value, 0..=u32::MAX)?,
            "watcher_logbuf_size" => self.watcher_logbuf_size = number(name, value, 1..=1 << 20)?,
            "worker_logbuf_size" => self.worker_logbuf_size = number(name, value, 1..=1 << 20)?,
            "read_buf_mem_limit" => self.read_buf_mem_limit = number(name, value, 0..=1 << 10)?,
            "track_sizes" => self.track_sizes = true,
            _ => return Err(format!("-o {name}: unknown option")),
        }
        Ok(())
    }
}

/// Returns whether a word switches something on. A word that does not begins with `no_`.
fn is_on(name: &str) -> bool {
    !name.starts_with("no_")
}

fn number<T>(name: &str, value: Option<&str>, allowed: std::ops::RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = value.and_then(|value| value.parse().ok()).filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("-o {name} needs a number from {} to {}", allowed.start(), allowed.end()))
}

fn fraction(name: &str, value: Option<&str>) -> Result<f64, String> {
    let fraction = value.and_then(|value| value.parse().ok()).filter(|fraction: &f64| *fraction > 0.0);
    fraction.filter(|fraction| fraction.is_finite()).ok_or_else(|| format!("-o {name} needs a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Extended, String> {
        Extended::parse(&words.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn later_words_override_earlier_ones() {
        let extended = parse("no_modern,lru_crawler,slab_chunk_max=16384,temporary_ttl=30").expect("known words");
        assert!(extended.lru_crawler && !extended.lru_maintainer && !extended.maxconns_fast && extended.temp_lru);
        assert_eq!((extended.slab_chunk_max, extended.temporary_ttl), (16_384, 30));
    }

    #[test]
    fn unknown_options_and_faulty_numbers_are_refused() {
        for words in ["nonsense", "idle_timeout", "idle_timeout=x", "idle_timeout=99999999999", "slab_automove=3"] {
            assert!(parse(words).is_err(), "{words}");
        }
        assert!(parse("ext_path=/tmp/x:1g").is_err_and(|text| text.contains("ext_path")));
    }
}
