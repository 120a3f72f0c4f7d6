//! One picture: what is shown, as numbers and texts.

/// A picture of a process.
#[derive(Default)]
pub struct Picture {
    pub process: u32,
    pub program: String,
    /// The number of strands of each sort, as a text: `fibres 12 (1 running, 3 ready)`.
    pub counts: Vec<String>,
    /// The time that it took to read the process.
    pub took_ms: f64,
    pub is_paused: bool,
    /// One line for each circle of strands that wait for each other.
    pub deadlocks: Vec<String>,
    pub processors: Vec<ProcessorRow>,
    pub sites: Vec<SiteRow>,
    pub waits: Vec<WaitRow>,
    pub locks: Vec<LockRow>,
    pub sockets: Vec<SocketRow>,
}

/// A processor.
pub struct ProcessorRow {
    pub name: String,
    pub thread: u32,
    pub runs: String,
    /// The share of a CPU, in per cent.
    pub cpu: Option<f64>,
    /// Some counters, each in a second.
    pub rates: Vec<Option<f64>>,
}

/// The counters of processors that are shown.
pub const RATES: [(&str, &str); 4] =
    [("dispatches", "switches/s"), ("stops", "stops/s"), ("steals", "steals/s"), ("sleeps", "sleeps/s")];

/// A place in the program that strands are spawned at.
pub struct SiteRow {
    pub site: String,
    /// The share of the samples in which a strand of the site ran, of those in which one ran at all.
    pub share: f64,
    pub live: usize,
    pub ready: usize,
}

/// A strand that waits for long.
pub struct WaitRow {
    pub strand: String,
    pub waits_for: String,
    pub seconds: f64,
    pub site: String,
}

/// A lock that strands wait for.
pub struct LockRow {
    pub lock: String,
    pub waiters: usize,
    pub owner: String,
    pub longest_s: f64,
}

/// A descriptor that strands wait for.
pub struct SocketRow {
    pub descriptor: u64,
    pub name: String,
    pub waits_to: &'static str,
    pub strands: usize,
    pub longest_s: f64,
}
