use super::sysfs::parse_cpu_list;
use super::*;
use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory like `/sys/devices/system/cpu`, in one that is removed when dropped.
struct FakeTree(PathBuf);

impl FakeTree {
    fn new() -> FakeTree {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sinew-topology-{}-{count}", process::id());
        let root = std::env::temp_dir().join(name).join("cpu");
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

    /// A node of memory beside the CPUs.
    fn node(&self, node: usize, cpus: &str, distances: &str) {
        self.write(&format!("../node/node{node}/cpulist"), &format!("{cpus}\n"));
        self.write(&format!("../node/node{node}/distance"), &format!("{distances}\n"));
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
        fs::remove_dir_all(self.0.parent().unwrap()).unwrap();
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
fn cpus_that_share_a_level_2_cache_are_nearest() {
    let tree = four_cpus();
    for (cpu, sharers) in [(0, "0"), (1, "1"), (2, "2-3"), (3, "2-3")] {
        tree.cache(cpu, 2, 2, "Unified", sharers);
    }
    let topology = tree.detect();
    assert_eq!(topology.distance(2, 3), Distance::Core);
    assert_eq!(topology.distance(1, 1), Distance::Core);
    assert_eq!(topology.distance(0, 1), Distance::Cache);
    assert_eq!(topology.distance(1, 2), Distance::Node);
    assert_eq!(topology, Topology::uniform(4, 2).with_cores(&[vec![2, 3]]));
}

#[test]
fn eight_cpus_share_level_2_caches_in_pairs() {
    let tree = FakeTree::new();
    for cpu in 0..8 {
        tree.cache(cpu, 0, 1, "Data", &cpu.to_string());
        tree.cache(cpu, 2, 2, "Unified", &format!("{}-{}", cpu & !1, cpu | 1));
    }
    let topology = tree.detect();
    assert_eq!(topology.caches(), 4);
    assert_eq!((topology.distance(6, 7), topology.distance(5, 6)), (Distance::Core, Distance::Node));
}

#[test]
fn nodes_have_the_distances_of_the_kernel() {
    let tree = four_cpus();
    tree.node(0, "0-1", "10 16 32");
    // Memory without CPUs.
    tree.node(1, "", "16 10 12");
    tree.node(4, "2-3", "32 12 10");
    let topology = tree.detect();
    assert_eq!(topology.distance(0, 3), Distance::Remote(32));
    assert_eq!(topology.distance(0, 1), Distance::Cache);
    assert!(Distance::Remote(12) < Distance::Remote(32) && Distance::Node < Distance::Remote(0));
}

#[test]
fn nodes_that_cannot_be_understood_are_one_node() {
    for (cpus, distances) in [("2-3", "32"), ("2-3", "32 ten"), ("2-", "32 10"), ("2-3", "")] {
        let tree = four_cpus();
        tree.node(0, "0-1", "10 32");
        tree.node(1, cpus, distances);
        assert_eq!(tree.detect(), Topology::uniform(4, 2));
    }
}

#[test]
fn a_topology_is_even_if_no_cpu_is_nearer_than_another() {
    assert!(Topology::flat(8).is_even());
    assert!(!Topology::uniform(8, 2).is_even());
    let pairs = Topology::flat(4).with_cores(&[vec![0, 1], vec![2, 3]]);
    assert!(pairs.is_flat() && !pairs.is_even());
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
