//! Which processors are near each other: the last-level cache that each CPU
//! belongs to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;

/// The most CPUs a list may name, and one more than the highest CPU number in
/// it. Not a measured number: larger than the machines this is for, and small
/// enough that a garbled file cannot make us allocate without bound.
const MAX_CPUS: usize = 4096;

/// Where Linux describes its CPUs.
const SYSFS_CPUS: &str = "/sys/devices/system/cpu";

/// A last-level cache: a number below [`Topology::caches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheId(pub(crate) u16);

impl CacheId {
    /// The number as an index into a table with one entry for each cache.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Caches past the 65,536th share the last number.
    fn from_index(index: usize) -> CacheId {
        CacheId(u16::try_from(index).unwrap_or(u16::MAX))
    }
}

/// Which last-level cache each CPU belongs to.
///
/// There is always at least one cache and at least one CPU. CPU numbers may have
/// holes, where CPUs are offline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Indexed by CPU number; holes are in cache 0.
    cache_of: Vec<CacheId>,
    /// CPUs that are not holes.
    cpus: usize,
    caches: usize,
}

impl Topology {
    /// The topology of this machine, as the kernel describes it; one cache for
    /// all CPUs if it does not.
    pub fn detect() -> Topology {
        Topology::detect_from(Path::new(SYSFS_CPUS))
    }

    /// As [`detect`](Topology::detect), from a directory laid out like
    /// `/sys/devices/system/cpu`.
    ///
    /// Each CPU belongs to its cache of the highest level that holds data. CPUs
    /// whose `online` file says 0 are left out. If anything about any other CPU
    /// cannot be read or understood, the answer is [`flat`](Topology::flat) with
    /// [`std::thread::available_parallelism`] CPUs: half a topology would
    /// mislead more than none.
    pub fn detect_from(root: &Path) -> Topology {
        read_groups(root).map_or_else(
            || Topology::flat(thread::available_parallelism().map_or(1, usize::from)),
            |groups| Topology::from_groups(&groups),
        )
    }

    /// `cpus` CPUs, numbered from 0, that share one cache. 0 counts as 1.
    pub fn flat(cpus: usize) -> Topology {
        Topology::uniform(cpus, 1)
    }

    /// `cpus` CPUs, numbered from 0, in consecutive groups of
    /// `cpus.div_ceil(caches)` for each cache. 0 counts as 1, for both.
    ///
    /// The last group is smaller when the numbers do not divide, and there may
    /// be fewer groups than asked for: 5 CPUs in 4 caches are 2, 2 and 1.
    pub fn uniform(cpus: usize, caches: usize) -> Topology {
        let cpus = cpus.max(1);
        let each = cpus.div_ceil(caches.max(1));
        let cache_of = (0..cpus).map(|cpu| CacheId::from_index(cpu / each));
        Topology::new(cache_of.collect(), cpus)
    }

    /// One cache for each group of CPU numbers, in this order.
    ///
    /// Empty groups are left out. A CPU named twice belongs to the first group
    /// that names it. No CPUs at all count as one. Memory is in proportion to
    /// the highest CPU number.
    pub fn from_groups(groups: &[Vec<usize>]) -> Topology {
        let mut known: Vec<Option<CacheId>> = Vec::new();
        let mut caches = 0;
        for group in groups {
            let mut founds_cache = false;
            for &cpu in group {
                if known.len() <= cpu {
                    known.resize(cpu + 1, None);
                }
                if known[cpu].is_none() {
                    known[cpu] = Some(CacheId::from_index(caches));
                    founds_cache = true;
                }
            }
            caches += usize::from(founds_cache);
        }
        if caches == 0 {
            return Topology::flat(1);
        }
        let cpus = known.iter().flatten().count();
        let cache_of = known.into_iter().map(|cache| cache.unwrap_or(CacheId(0)));
        Topology::new(cache_of.collect(), cpus)
    }

    /// `cache_of` is not empty and names every cache up to its highest.
    fn new(cache_of: Vec<CacheId>, cpus: usize) -> Topology {
        let highest = cache_of.iter().max().map_or(0, |cache| cache.index());
        Topology { cache_of, cpus, caches: highest + 1 }
    }

    /// The last-level cache of the CPU with this number; the first cache for a
    /// number that is not known.
    pub fn cache_of(&self, cpu: usize) -> CacheId {
        self.cache_of.get(cpu).copied().unwrap_or(CacheId(0))
    }

    /// How many last-level caches there are; at least 1.
    pub fn caches(&self) -> usize {
        self.caches
    }

    /// How many CPUs are known; at least 1. With holes in the numbering, the
    /// highest CPU number is this or greater.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Whether all CPUs share one cache, so that distance need not be weighed.
    pub fn is_flat(&self) -> bool {
        self.caches == 1
    }
}

/// The CPUs of each last-level cache, ordered by their lowest CPU; `None` unless
/// every online CPU is described.
fn read_groups(root: &Path) -> Option<Vec<Vec<usize>>> {
    let mut cpus = numbered_entries(root, "cpu")?;
    cpus.sort_unstable();
    let mut group_of: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for cpu in cpus {
        let directory = root.join(format!("cpu{cpu}"));
        if is_offline(&directory) {
            continue;
        }
        let sharers = last_level_sharers(&directory.join("cache"))?;
        if !sharers.contains(&cpu) {
            return None;
        }
        let group = *group_of.entry(sharers).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(cpu);
    }
    Some(groups).filter(|groups| !groups.is_empty())
}

/// CPUs that cannot be taken offline have no `online` file.
fn is_offline(cpu: &Path) -> bool {
    fs::read_to_string(cpu.join("online")).is_ok_and(|online| online.trim() == "0")
}

/// The CPUs that share the highest-level data cache in a CPU's `cache`
/// directory.
fn last_level_sharers(cache: &Path) -> Option<Vec<usize>> {
    let mut last = None;
    for index in numbered_entries(cache, "index")? {
        let directory = cache.join(format!("index{index}"));
        let kind = fs::read_to_string(directory.join("type")).ok()?;
        match kind.trim() {
            "Data" | "Unified" => {}
            "Instruction" => continue,
            _ => return None,
        }
        let level = fs::read_to_string(directory.join("level")).ok()?;
        let level: u32 = level.trim().parse().ok()?;
        last = last.max(Some((level, directory)));
    }
    let (_, directory) = last?;
    parse_cpu_list(&fs::read_to_string(directory.join("shared_cpu_list")).ok()?)
}

/// The numbers of the entries named `<prefix><number>`; other entries, such as
/// `cpufreq` beside `cpu0`, are passed over.
fn numbered_entries(directory: &Path, prefix: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).ok()? {
        let name = entry.ok()?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
        numbers.extend(number.and_then(parse_cpu));
    }
    Some(numbers)
}

/// The CPUs that a list in the kernel's format (`0-3,8,10-11`) names, ascending
/// and each once. White space around the list is tolerated, and an empty list
/// names none.
///
/// `None` if the list is malformed, names a CPU above 4095, or names more than
/// 4096 CPUs.
pub(crate) fn parse_cpu_list(list: &str) -> Option<Vec<usize>> {
    let list = list.trim();
    let mut cpus = Vec::new();
    if list.is_empty() {
        return Some(cpus);
    }
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (parse_cpu(first)?, parse_cpu(last)?);
        if first > last || cpus.len() + (last - first) >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Digits only: `usize`'s own parser takes a plus sign as well.
fn parse_cpu(digits: &str) -> Option<usize> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|&cpu| cpu < MAX_CPUS)
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A directory like `/sys/devices/system/cpu`, removed when dropped.
    struct FakeTree(PathBuf);

    impl FakeTree {
        fn new() -> FakeTree {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("sinew-topology-{}-{count}", process::id());
            let root = std::env::temp_dir().join(name);
            fs::create_dir_all(root.join("cpufreq")).unwrap();
            let tree = FakeTree(root);
            tree.write("online", "0-3\n");
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn cache(&self, cpu: usize, index: usize, level: usize, kind: &str, sharers: &str) {
            let cache = format!("cpu{cpu}/cache/index{index}");
            self.write(&format!("{cache}/level"), &format!("{level}\n"));
            self.write(&format!("{cache}/type"), &format!("{kind}\n"));
            self.write(&format!("{cache}/shared_cpu_list"), &format!("{sharers}\n"));
        }

        /// A CPU with level 1 caches of its own and a shared one of level 3.
        fn cpu(&self, cpu: usize, sharers: &str) {
            self.cache(cpu, 0, 1, "Data", &cpu.to_string());
            self.cache(cpu, 1, 1, "Instruction", &cpu.to_string());
            self.cache(cpu, 3, 3, "Unified", sharers);
            self.write(&format!("cpu{cpu}/cache/uevent"), "");
        }

        fn detect(&self) -> Topology {
            Topology::detect_from(&self.0)
        }

        fn assert_falls_back(&self) {
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            assert_eq!(self.detect(), Topology::flat(cpus));
        }
    }

    impl Drop for FakeTree {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn caches(topology: &Topology, cpus: impl IntoIterator<Item = usize>) -> Vec<usize> {
        cpus.into_iter().map(|cpu| topology.cache_of(cpu).index()).collect()
    }

    /// Four CPUs, two for each cache.
    fn four_cpus() -> FakeTree {
        let tree = FakeTree::new();
        for cpu in 0..4 {
            tree.cpu(cpu, if cpu < 2 { "0-1" } else { "2-3" });
        }
        tree
    }

    #[test]
    fn this_machine_has_a_topology() {
        let topology = Topology::detect();
        assert!(topology.cpus() >= 1);
        assert!((1..=topology.cpus()).contains(&topology.caches()));
    }

    #[test]
    fn the_highest_level_groups_cpus() {
        let topology = four_cpus().detect();
        assert_eq!(topology, Topology::uniform(4, 2));
        assert_eq!(caches(&topology, 0..4), [0, 0, 1, 1]);
        assert!(!topology.is_flat());
    }

    #[test]
    fn interleaved_cpus_are_grouped() {
        let tree = FakeTree::new();
        for cpu in 0..6 {
            tree.cpu(cpu, ["0,2,4", "1,3,5"][cpu % 2]);
        }
        assert_eq!(caches(&tree.detect(), 0..6), [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn cpus_may_differ_in_their_last_level() {
        let tree = FakeTree::new();
        tree.cpu(0, "0-1");
        tree.cpu(1, "0-1");
        for cpu in [2, 3] {
            tree.cache(cpu, 0, 1, "Data", &cpu.to_string());
            tree.cache(cpu, 2, 2, "Unified", "2-3");
        }
        assert_eq!(caches(&tree.detect(), 0..4), [0, 0, 1, 1]);
    }

    #[test]
    fn two_hundred_and_fifty_six_cpus_have_eight_caches() {
        let tree = FakeTree::new();
        for cpu in 0..256 {
            let first = cpu / 32 * 32;
            tree.cpu(cpu, &format!("{first}-{}", first + 31));
        }
        let topology = tree.detect();
        assert_eq!(topology, Topology::uniform(256, 8));
        assert_eq!((topology.cpus(), topology.caches()), (256, 8));
        assert_eq!(topology.cache_of(255).index(), 7);
    }

    #[test]
    fn offline_cpus_are_holes() {
        let tree = FakeTree::new();
        tree.cpu(0, "0,2");
        tree.cpu(2, "0,2");
        tree.cpu(9, "9");
        tree.write("cpu0/online", "1\n");
        tree.write("cpu1/online", "0\n");
        let topology = tree.detect();
        assert_eq!((topology.cpus(), topology.caches()), (3, 2));
        assert_eq!(caches(&topology, [0, 1, 2, 5, 9, 10]), [0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn a_missing_tree_is_flat() {
        let tree = FakeTree::new();
        tree.assert_falls_back();
        let root = tree.0.join("nowhere");
        assert!(Topology::detect_from(&root).is_flat());
    }

    #[test]
    fn a_cpu_without_caches_makes_all_flat() {
        let tree = four_cpus();
        fs::remove_dir_all(tree.0.join("cpu2/cache")).unwrap();
        tree.assert_falls_back();
        fs::create_dir(tree.0.join("cpu2/cache")).unwrap();
        tree.assert_falls_back();
        tree.cache(2, 1, 1, "Instruction", "2");
        tree.assert_falls_back();
    }

    #[test]
    fn a_garbage_file_makes_all_flat() {
        for (file, text) in [
            ("level", "three"),
            ("level", ""),
            ("type", "Sticky"),
            ("shared_cpu_list", "2-"),
            ("shared_cpu_list", ""),
            ("shared_cpu_list", "0-1"),
            ("shared_cpu_list", "0-99999999"),
        ] {
            let tree = four_cpus();
            tree.write(&format!("cpu3/cache/index3/{file}"), text);
            tree.assert_falls_back();
        }
        for file in ["level", "type", "shared_cpu_list"] {
            let tree = four_cpus();
            let path = tree.0.join(format!("cpu3/cache/index3/{file}"));
            fs::write(&path, [0xFF, 0xFE]).unwrap();
            tree.assert_falls_back();
            fs::remove_file(&path).unwrap();
            tree.assert_falls_back();
        }
    }

    #[test]
    fn uniform_groups_are_consecutive() {
        assert_eq!(caches(&Topology::uniform(5, 4), 0..5), [0, 0, 1, 1, 2]);
        assert_eq!(Topology::uniform(5, 4).caches(), 3);
        assert_eq!(Topology::uniform(2, 8).caches(), 2);
        assert_eq!(Topology::uniform(3, 0), Topology::flat(3));
        assert_eq!(Topology::flat(0), Topology::flat(1));
        assert_eq!(Topology::uniform(70_000, 70_000).caches(), 65_536);
    }

    #[test]
    fn unknown_cpus_are_in_the_first_cache() {
        let topology = Topology::uniform(8, 4);
        assert_eq!(caches(&topology, [7, 8, usize::MAX]), [3, 0, 0]);
    }

    #[test]
    fn groups_may_be_empty_or_overlap() {
        let topology = Topology::from_groups(&[vec![], vec![3, 1], vec![1, 3], vec![3, 0]]);
        assert_eq!((topology.cpus(), topology.caches()), (3, 2));
        assert_eq!(caches(&topology, 0..4), [1, 0, 0, 0]);
        assert_eq!(Topology::from_groups(&[]), Topology::flat(1));
        assert_eq!(Topology::from_groups(&[vec![]]), Topology::flat(1));
    }

    #[test]
    fn cpu_lists_of_the_kernel_are_read() {
        assert_eq!(parse_cpu_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_cpu_list("7"), Some(vec![7]));
        assert_eq!(parse_cpu_list("5-5,1,5"), Some(vec![1, 5]));
        assert_eq!(parse_cpu_list("\n"), Some(vec![]));
        assert_eq!(parse_cpu_list("0-4095").map(|cpus| cpus.len()), Some(4096));
    }

    #[test]
    fn malformed_cpu_lists_are_refused() {
        for list in [
            ",",
            "0,",
            ",0",
            "0,,1",
            "-",
            "1-",
            "-1",
            "3-1",
            "1-2-3",
            "+1",
            "a",
            "0x1",
            "1 2",
            "0 - 3",
            "0-6:2/3",
            "4096",
            "0-4096",
            "0-4095,0-4095",
            "0-99999999999999999999",
        ] {
            assert_eq!(parse_cpu_list(list), None, "{list:?}");
        }
    }
}
