//! How Linux describes CPUs, caches and nodes of memory, in files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The largest number of CPUs that a list may name, and one more than the highest CPU number in it.
/// Unmeasured: larger than the machines this is for, and small enough that a garbled file does not
/// make us allocate without bound.
const MAX_CPUS: usize = 4096;

/// Where Linux describes its CPUs.
pub(super) const CPUS: &str = "/sys/devices/system/cpu";

/// The CPUs of each cache.
#[derive(Default)]
pub(super) struct Caches {
    /// Ordered by their lowest CPU.
    pub(super) last_level: Vec<Vec<usize>>,
    /// Each group as often as it has CPUs.
    pub(super) second_level: Vec<Vec<usize>>,
}

/// The nodes of memory that have CPUs.
pub(super) struct Nodes {
    pub(super) cpus: Vec<Vec<usize>>,
    pub(super) distances: Vec<Vec<u16>>,
}

/// Returns the CPUs of each cache; `None` unless every online CPU is described.
pub(super) fn read_caches(root: &Path) -> Option<Caches> {
    let mut cpus = numbered_entries(root, "cpu")?;
    cpus.sort_unstable();
    let mut group_of: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let mut caches = Caches::default();
    for cpu in cpus {
        let directory = root.join(format!("cpu{cpu}"));
        if is_offline(&directory) {
            continue;
        }
        let levels = sharers_by_level(&directory.join("cache"))?;
        let (_, sharers) = levels.last_key_value()?;
        if levels.values().any(|sharers| !sharers.contains(&cpu)) {
            return None;
        }
        let groups = &mut caches.last_level;
        let group = *group_of.entry(sharers.clone()).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(cpu);
        caches.second_level.extend(levels.get(&2).cloned());
    }
    Some(caches).filter(|caches| !caches.last_level.is_empty())
}

/// Says whether the CPU is offline. CPUs that cannot be taken offline have no `online` file.
fn is_offline(cpu: &Path) -> bool {
    fs::read_to_string(cpu.join("online")).is_ok_and(|online| online.trim() == "0")
}

/// Returns the CPUs that share each level of the data caches in a CPU's `cache` directory.
fn sharers_by_level(cache: &Path) -> Option<BTreeMap<u32, Vec<usize>>> {
    let mut levels = BTreeMap::new();
    for index in numbered_entries(cache, "index")? {
        let directory = cache.join(format!("index{index}"));
        let read = |file: &str| fs::read_to_string(directory.join(file)).ok();
        match read("type")?.trim() {
            "Data" | "Unified" => {}
            "Instruction" => continue,
            _ => return None,
        }
        let level: u32 = read("level")?.trim().parse().ok()?;
        levels.insert(level, parse_cpu_list(&read("shared_cpu_list")?)?);
    }
    Some(levels)
}

/// Returns the nodes that have CPUs, and the distances between them, from a directory like
/// `/sys/devices/system/node`. `None` unless every node is described.
pub(super) fn read_nodes(root: &Path) -> Option<Nodes> {
    let mut numbers = numbered_entries(root, "node")?;
    numbers.sort_unstable();
    let mut nodes = Vec::new();
    for &number in &numbers {
        let read = |file: &str| fs::read_to_string(root.join(format!("node{number}")).join(file)).ok();
        let cpus = parse_cpu_list(&read("cpulist")?)?;
        let distances: Option<Vec<u16>> = read("distance")?.split_whitespace().map(|word| word.parse().ok()).collect();
        nodes.push((cpus, distances.filter(|row| row.len() == numbers.len())?));
    }
    // A node may have memory and no CPUs. Its column goes with its row.
    let has_cpus: Vec<bool> = nodes.iter().map(|(cpus, _)| !cpus.is_empty()).collect();
    nodes.retain(|(cpus, _)| !cpus.is_empty());
    let (cpus, rows): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
    let columns = |row: Vec<u16>| row.into_iter().zip(&has_cpus).filter(|(_, has)| **has).map(|(to, _)| to).collect();
    Some(Nodes { cpus, distances: rows.into_iter().map(columns).collect() }).filter(|nodes| !nodes.cpus.is_empty())
}

/// Returns the numbers of the entries named `<prefix><number>`. Other entries, such as `cpufreq`
/// beside `cpu0`, are left out.
fn numbered_entries(directory: &Path, prefix: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).ok()? {
        let name = entry.ok()?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
        numbers.extend(number.and_then(parse_cpu));
    }
    Some(numbers)
}

/// Returns the CPUs that a list in the kernel's format (`0-3,8,10-11`) names, ascending and each
/// once. White space around the list is tolerated, and an empty list names no CPU.
///
/// Returns `None` if the list is malformed, names a CPU above 4095, or names more than 4096 CPUs.
pub(super) fn parse_cpu_list(list: &str) -> Option<Vec<usize>> {
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

/// Parses a CPU number. Digits only: the parser of `usize` takes a plus sign as well.
fn parse_cpu(digits: &str) -> Option<usize> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|&cpu| cpu < MAX_CPUS)
}
