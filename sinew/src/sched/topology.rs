//! Which CPUs are near each other: the caches that they share, and the node of memory that each of them
//! belongs to.

mod sysfs;
#[cfg(all(test, not(sinew_loom)))]
mod tests;

use std::path::Path;
use std::thread;

/// A last-level cache: a number below [`Topology::caches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheId(pub(crate) u16);

impl CacheId {
    /// Returns the number as an index into a table with one entry for each cache.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Caches past the 65,536th share the last number.
    fn from_index(index: usize) -> CacheId {
        CacheId(u16::try_from(index).unwrap_or(u16::MAX))
    }
}

/// How far apart two CPUs are. The smaller distance is the nearer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// They share a level 2 cache, or are the same CPU.
    Core,
    /// They share a last-level cache.
    Cache,
    /// They share a node of memory.
    Node,
    /// They are in two nodes of memory. The number is the kernel's, which counts 10 for a node's own
    /// memory.
    Remote(u16),
}

impl Distance {
    /// Says whether the two CPUs share a cache.
    pub fn is_near(self) -> bool {
        self <= Distance::Cache
    }
}

/// What one CPU shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cpu {
    /// The lowest CPU of those that share its level 2 cache.
    core: u16,
    cache: CacheId,
    /// An index into `Topology::distances`.
    node: u16,
}

/// Which caches each CPU shares with others, and how far apart the nodes of memory are.
///
/// There is always at least one cache and at least one CPU. CPU numbers may have
/// holes, where CPUs are offline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Indexed by CPU number; holes are in cache 0 and node 0.
    table: Vec<Cpu>,
    /// CPUs that are not holes.
    cpus: usize,
    caches: usize,
    /// One row for each node of memory, with the distance to each node. Empty if no distances are known.
    distances: Vec<Vec<u16>>,
}

/// The distance that is assumed between two nodes if the kernel gives none. It is the kernel's own
/// assumption.
const REMOTE: u16 = 20;

impl Topology {
    /// Returns the topology of this machine as the kernel describes it. If the kernel does not, all
    /// CPUs share one cache.
    pub fn detect() -> Topology {
        Topology::detect_from(Path::new(sysfs::CPUS))
    }

    /// Reads the topology from a directory that is laid out like `/sys/devices/system/cpu`, and from
    /// the directory `node` beside it.
    ///
    /// Each CPU belongs to its cache of the highest level that holds data. CPUs whose `online` file
    /// says 0 are left out. If the entry of any other CPU cannot be read or understood, returns a
    /// [`flat`](Topology::flat) topology with [`std::thread::available_parallelism`] CPUs: half a
    /// topology would mislead more than none. A CPU that has no level 2 cache shares none. If the nodes
    /// cannot be read or understood, all CPUs are in one node.
    pub fn detect_from(root: &Path) -> Topology {
        let Some(found) = sysfs::read_caches(root) else {
            return Topology::flat(thread::available_parallelism().map_or(1, usize::from));
        };
        let topology = Topology::from_groups(&found.last_level).with_cores(&found.second_level);
        match root.parent().and_then(|parent| sysfs::read_nodes(&parent.join("node"))) {
            Some(nodes) => topology.with_nodes(&nodes.cpus, nodes.distances),
            None => topology,
        }
    }

    /// Returns a topology of `cpus` CPUs, numbered from 0, that share one cache. 0 counts as 1.
    pub fn flat(cpus: usize) -> Topology {
        Topology::uniform(cpus, 1)
    }

    /// Returns a topology of `cpus` CPUs, numbered from 0, in consecutive groups of
    /// `cpus.div_ceil(caches)` for each cache. 0 counts as 1, for both. No level 2 cache is shared, and
    /// there is one node of memory.
    ///
    /// If the numbers do not divide, the last group is smaller, and there may be fewer groups than
    /// asked for: 5 CPUs in 4 caches are 2, 2 and 1.
    pub fn uniform(cpus: usize, caches: usize) -> Topology {
        let cpus = cpus.max(1);
        let each = cpus.div_ceil(caches.max(1));
        Topology::new((0..cpus).map(|cpu| CacheId::from_index(cpu / each)).collect(), cpus)
    }

    /// Returns a topology with one last-level cache for each group of CPU numbers, in this order. No
    /// level 2 cache is shared, and there is one node of memory.
    ///
    /// Empty groups are left out. A CPU that is named twice belongs to the first group that names
    /// it. No CPUs at all count as one CPU. The memory that it takes is in proportion to the highest
    /// CPU number.
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
        Topology::new(known.into_iter().map(|cache| cache.unwrap_or(CacheId(0))).collect(), cpus)
    }

    /// Returns the same topology, in which the CPUs of each group share a level 2 cache. CPUs that are
    /// not known are left out.
    pub fn with_cores(mut self, groups: &[Vec<usize>]) -> Topology {
        for group in groups {
            let lowest = group.iter().min().map_or(0, |&cpu| number(cpu));
            for &cpu in group {
                self.table.get_mut(cpu).into_iter().for_each(|cpu| cpu.core = lowest);
            }
        }
        self
    }

    /// Returns the same topology, in which each group of CPUs is a node of memory. `distances` has a row
    /// for each node, with the distance to each node. A distance that is missing is assumed to be 20.
    /// CPUs that no group names are in the first node.
    pub fn with_nodes(mut self, groups: &[Vec<usize>], distances: Vec<Vec<u16>>) -> Topology {
        for (node, group) in groups.iter().enumerate() {
            for &cpu in group {
                self.table.get_mut(cpu).into_iter().for_each(|cpu| cpu.node = number(node));
            }
        }
        self.distances = distances;
        self
    }

    /// `caches` is not empty and names every cache up to its highest.
    fn new(caches: Vec<CacheId>, cpus: usize) -> Topology {
        let highest = caches.iter().max().map_or(0, |cache| cache.index());
        let cpu = |(cpu, cache)| Cpu { core: number(cpu), cache, node: 0 };
        let table = caches.into_iter().enumerate().map(cpu).collect();
        Topology { table, cpus, caches: highest + 1, distances: Vec::new() }
    }

    /// Returns the last-level cache of the CPU with this number; the first cache for a number that
    /// is not known.
    pub fn cache_of(&self, cpu: usize) -> CacheId {
        self.table.get(cpu).map_or(CacheId(0), |cpu| cpu.cache)
    }

    /// Returns the node of memory of the CPU with this number, counted from 0; the first node for a number that is not
    /// known.
    pub fn node_of(&self, cpu: usize) -> usize {
        self.table.get(cpu).map_or(0, |cpu| usize::from(cpu.node))
    }

    /// Returns how far apart two CPUs are. A CPU whose number is not known is in the first cache and the
    /// first node.
    pub fn distance(&self, one: usize, other: usize) -> Distance {
        let unknown = |cpu| Cpu { core: number(cpu), cache: CacheId(0), node: 0 };
        let [a, b] = [one, other].map(|cpu| self.table.get(cpu).copied().unwrap_or_else(|| unknown(cpu)));
        if a.core == b.core {
            Distance::Core
        } else if a.cache == b.cache {
            Distance::Cache
        } else if a.node == b.node {
            Distance::Node
        } else {
            let row = self.distances.get(usize::from(a.node));
            Distance::Remote(row.and_then(|row| row.get(usize::from(b.node))).copied().unwrap_or(REMOTE))
        }
    }

    /// Returns the number of last-level caches; at least 1.
    pub fn caches(&self) -> usize {
        self.caches
    }

    /// Returns the number of CPUs that are known; at least 1. If the numbering has holes, the highest
    /// CPU number is this or greater.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Says whether all CPUs share one last-level cache.
    pub fn is_flat(&self) -> bool {
        self.caches == 1
    }

    /// Says whether every CPU is equally far from all others: they share one last-level cache, and no two
    /// of them a level 2 cache.
    pub fn is_even(&self) -> bool {
        self.is_flat() && self.table.iter().enumerate().all(|(cpu, of)| of.core == number(cpu))
    }
}

/// Numbers past the 65,536th share the last one.
fn number(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}
