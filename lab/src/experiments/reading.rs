//! `reading`: what it costs a strand to read from a file, to ask for its metadata, and to open and
//! close it.
//!
//! `cached`, `metadata` and `open and close` are calls of one strand that need no device. In `cold`
//! eight strands read blocks at random, each block once, and none is in memory. The blocks' file
//! lies beside the lab's program, and has no name: it is gone when the measurement ends. The
//! kernel's cache is emptied of it before, and again when all of it has been read; that is not timed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::kernel;
use crate::measure::slices::Slices;
use crate::peers::files::{self, Files, FilesBody};

const CACHED: &str = "cached";
const METADATA: &str = "metadata";
const OPEN: &str = "open and close";
const COLD: &str = "cold";

const BLOCK: u64 = 4096;
/// Blocks of the file that is in memory.
const CACHED_BLOCKS: u64 = 256;
/// Blocks of the file that is not: 256 MiB, and fewer for a short window. Powers of two.
const COLD_BLOCKS: u64 = 1 << 16;
const LEAST_COLD_BLOCKS: u64 = 1 << 10;
/// No device here reads more blocks in a second.
const BLOCKS_PER_SECOND: f64 = 65_536.0;
const READERS: usize = 8;

/// Calls between two looks at the clock.
const AT_ONCE: usize = 50;

pub static READING: Experiment = Experiment {
    name: "reading",
    source: "Sinew",
    measures: "What calls on files cost a strand: a read of 4 KiB that are in memory; in full also metadata, open and close, and reads of 4 KiB by eight strands at random that have to come from the device.",
    good: "In memory, little more than the kernel’s call itself. From the device, more for each second than a pool of threads reads.",
    metrics: &[Metric::higher("ops_per_s", "thousand calls/s", 1e3), Metric::lower("us_per_op", "µs for each", 1.0)],
    plots: &[Plot::Bars { metric: "us_per_op" }, Plot::Bars { metric: "ops_per_s" }],
    limit: |_| Duration::from_secs(60),
    others: "the experiment has the peers whose strands read files, and kernel threads",
    concerns: files::can,
    variants: |depth, _, _| {
        let all = [(CACHED, 1), (METADATA, 1), (OPEN, 1), (COLD, READERS)];
        let few = if depth == Depth::Tour { &all[..1] } else { &all };
        few.iter().map(|(name, strands)| Variant::new(name, *strands)).collect()
    },
    measure: files::measure::<Calls>,
    bars: &[
        Bar::of("sinew/default", CACHED, 1).metric("us_per_op").at_most(1.5),
        Bar::of("sinew/default", METADATA, 1).metric("us_per_op").at_most(6.0),
        Bar::of("sinew/default", COLD, 1).at_least(1.3).over_peers(&["sinew/default/epoll"]),
    ],
    ..PLAIN
};

struct Calls;

impl FilesBody for Calls {
    fn measure<P: Files>(peer: P, case: &Case) -> io::Result<Reading> {
        let window = case.window();
        match case.variant.as_str() {
            CACHED => {
                let file = P::file(nameless_file(CACHED_BLOCKS)?);
                peer.run(async move { cached::<P>(&file, window).await.map(|slices| reading(&slices)) })
            }
            COLD => cold(peer, window),
            variant => {
                let (path, opens) = (std::env::current_exe()?, variant == OPEN);
                peer.run(async move { by_path::<P>(&path, opens, window).await.map(|slices| reading(&slices)) })
            }
        }
    }
}

fn reading(slices: &Slices) -> Reading {
    let ns = slices.median_ns();
    Reading::of([("ops_per_s", 1e9 / ns), ("us_per_op", ns / 1e3)])
}

/// Returns a file without a name, on the file system of the lab's program. Its blocks are on the
/// device.
fn nameless_file(blocks: u64) -> io::Result<File> {
    let path = beside_program()?;
    let mut file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(path)?;
    // A file system may keep zeros as a hole.
    let piece: Vec<u8> = (0..BLOCK).map(|at| 1 + (at % 251) as u8).collect();
    let piece = piece.repeat(64);
    let mut missing = blocks * BLOCK;
    while missing > 0 {
        let count = missing.min(piece.len() as u64);
        file.write_all(&piece[..count as usize])?;
        missing -= count;
    }
    file.sync_all()?;
    Ok(file)
}

fn beside_program() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(format!("sinew-lab-reading-{}", std::process::id())))
}

async fn cached<P: Files>(file: &P::File, window: Duration) -> io::Result<Slices> {
    let mut buffer = vec![0; BLOCK as usize];
    let (mut slices, mut block) = (Slices::new(window), 0);
    while !slices.is_over() {
        let begun = Instant::now();
        for _ in 0..AT_ONCE {
            whole_block(P::read_at(file, &mut buffer, block * BLOCK).await?)?;
            block = (block + 1) % CACHED_BLOCKS;
        }
        slices.note(begun.elapsed(), AT_ONCE);
    }
    Ok(slices)
}

fn whole_block(count: usize) -> io::Result<()> {
    if count as u64 == BLOCK { Ok(()) } else { Err(io::Error::other(format!("a read of {count} bytes"))) }
}

async fn by_path<P: Files>(path: &Path, opens: bool, window: Duration) -> io::Result<Slices> {
    let mut slices = Slices::new(window);
    while !slices.is_over() {
        let begun = Instant::now();
        for _ in 0..AT_ONCE {
            if opens {
                P::open(path).await?;
            } else {
                P::metadata(path).await?;
            }
        }
        slices.note(begun.elapsed(), AT_ONCE);
    }
    Ok(slices)
}

fn cold<P: Files>(peer: P, window: Duration) -> io::Result<Reading> {
    let wanted = (window.as_secs_f64() * BLOCKS_PER_SECOND) as u64;
    let blocks = wanted.next_power_of_two().clamp(LEAST_COLD_BLOCKS, COLD_BLOCKS);
    let std = nameless_file(blocks)?;
    // The kernel reads no block that was not asked for.
    kernel::advise(&std, libc::POSIX_FADV_RANDOM)?;
    let file = P::file(std.try_clone()?);
    let (count, time) = peer.run(async move {
        let (mut count, mut time) = (0, Duration::ZERO);
        while time < window {
            kernel::advise(&std, libc::POSIX_FADV_DONTNEED)?;
            if kernel::is_in_memory(&std, blocks / 2 * BLOCK)? {
                return Err(io::Error::other("this file system keeps the file in memory"));
            }
            let begun = Instant::now();
            let pass = Arc::new(Pass { next: AtomicU64::new(0), blocks, end: begun + (window - time) });
            let readers: Vec<_> = (0..READERS).map(|_| P::spawn(reader::<P>(file.clone(), pass.clone()))).collect();
            for reader in readers {
                count += P::join(reader).await;
            }
            time += begun.elapsed();
        }
        Ok((count, time))
    })?;
    let seconds = time.as_secs_f64();
    Ok(Reading::of([
        ("ops_per_s", count as f64 / seconds),
        ("us_per_op", READERS as f64 * seconds * 1e6 / count as f64),
    ]))
}

/// All blocks once.
struct Pass {
    next: AtomicU64,
    blocks: u64,
    end: Instant,
}

impl Pass {
    /// Returns the offset of a block that nobody has read, in an order without neighbours.
    fn take(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Relaxed);
        // An odd factor: each block comes once.
        let block = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.blocks;
        (number < self.blocks).then_some(block * BLOCK)
    }
}

/// Returns the number of blocks that it has read.
async fn reader<P: Files>(file: P::File, pass: Arc<Pass>) -> u64 {
    let (mut buffer, mut count) = (vec![0; BLOCK as usize], 0);
    while Instant::now() < pass.end
        && let Some(offset) = pass.take()
    {
        let read = P::read_at(&file, &mut buffer, offset).await;
        read.and_then(whole_block).expect("a whole block");
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_has_each_block_once() {
        let pass = Pass { next: AtomicU64::new(0), blocks: LEAST_COLD_BLOCKS, end: Instant::now() };
        let mut offsets: Vec<_> = std::iter::from_fn(|| pass.take()).collect();
        let neighbours = offsets.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == BLOCK).count();
        assert_eq!(neighbours, 0);
        offsets.sort_unstable();
        assert!(offsets.into_iter().eq((0..LEAST_COLD_BLOCKS).map(|block| block * BLOCK)));
    }

    #[test]
    fn a_file_without_a_name_leaves_nothing_behind() {
        let file = nameless_file(3).expect("a file");
        assert_eq!(file.metadata().expect("metadata").len(), 3 * BLOCK);
        assert!(!beside_program().expect("a path").exists());
    }
}
