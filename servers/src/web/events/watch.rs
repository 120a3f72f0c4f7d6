//! Asks the kernel which sockets are ready, and watches the deadlines.

use super::World;
use super::connection::{Heard, NEVER, Why};
use super::door::Door;
use super::handlers::{EPOLL, READ};
use crate::serving;
use rustix::event::{Timespec, epoll};
use sinew::event::Colour;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The largest number of reports that one event takes from the kernel. Unmeasured.
const REPORTS: usize = 256;

/// The report on the bell, by which other strands wake the `epoll` handler.
pub const BELL: u64 = u64::MAX;

/// Reports from this one on are about listeners.
pub const DOORS: u64 = 1 << 32;

/// A report of the kernel.
struct Report {
    /// The number of a connection, that of a listener from [`DOORS`] on, or [`BELL`].
    number: u64,
    /// Whether the client has sent everything.
    is_end: bool,
}

/// The `epoll` handler's own state. It moves from one event to the next.
pub struct Round {
    world: &'static World,
    reports: Vec<Report>,
    /// Empty between two events.
    heard: Vec<Heard>,
    /// The next time to look at the deadlines.
    next_look: Option<Instant>,
    /// The colour of this event, and that of the next one.
    colours: [Colour; 2],
    /// Whether the connections know that the server stops.
    are_told: bool,
}

impl Round {
    /// Posts the first event.
    pub fn begin(world: &'static World) {
        let colours = [Colour::new(), Colour::new()];
        let (reports, heard) = (Vec::with_capacity(REPORTS), Vec::with_capacity(REPORTS));
        Box::new(Round { world, reports, heard, next_look: None, colours, are_told: false }).go_on();
    }

    /// Posts the next event behind all that are ready. It has the other colour, because an event of
    /// this colour would run in the same turn, before those of the connections.
    fn go_on(mut self: Box<Round>) {
        self.colours.swap(0, 1);
        let colour = self.colours[0].clone();
        let _ = EPOLL.post(&colour, self);
    }

    /// Waits until there are reports, or until the next look.
    fn wait(&mut self) -> io::Result<()> {
        let Round { world, reports, next_look, .. } = self;
        reports.clear();
        let mut attempt = |poller: &OwnedFd| match receive(poller, reports)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        };
        let outcome = match *next_look {
            Some(deadline) => world.poller.read_with_deadline(deadline, &mut attempt),
            None => world.poller.read_with(&mut attempt),
        };
        match outcome {
            Err(error) if error.kind() != ErrorKind::TimedOut => Err(error),
            _ => Ok(()),
        }
    }

    /// Posts an event for each report. Nothing is posted under the lock: a post may wake another
    /// processor, and that takes a system call.
    fn spread(&mut self) {
        let Round { world, reports, heard, .. } = self;
        let table = world.table();
        for report in reports.iter() {
            match report.number {
                BELL => world.hush(),
                number @ DOORS.. => Door { world, number: (number - DOORS) as usize }.open(),
                number => {
                    let why = if report.is_end { Why::More } else { Why::Bytes };
                    let connection = table.get(number as u32).cloned();
                    heard.extend(connection.map(|connection| Heard { connection, why }));
                }
            }
        }
        drop(table);
        self.post();
    }

    /// Posts the events of the connections that were heard.
    fn post(&mut self) {
        for heard in self.heard.drain(..) {
            let colour = heard.connection.colour.clone();
            let _ = READ.post(&colour, heard);
        }
    }

    /// Looks at all deadlines, and sets the time of the next look.
    #[cold]
    fn look(&mut self, now: Instant, is_told: bool) {
        let world = self.world;
        let now_ms = world.ms(now);
        let mut next_ms = NEVER;
        for connection in world.table().all() {
            let deadline_ms = connection.deadline_ms.load(Relaxed);
            if is_told || deadline_ms <= now_ms {
                self.heard.push(Heard { connection: Arc::clone(connection), why: Why::Deadline });
            }
            // A connection that is busy, or whose deadline is over, soon has another deadline.
            let is_known = deadline_ms > now_ms && deadline_ms != NEVER;
            next_ms = next_ms.min(if is_known { deadline_ms } else { now_ms + world.shortest.as_millis() as u64 });
        }
        self.post();
        self.next_look = (next_ms != NEVER).then(|| world.began + Duration::from_millis(next_ms + 1));
    }
}

/// The flags that announce the end of what a client sends.
const END: epoll::EventFlags = epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// Takes reports from the kernel without waiting, and returns their number.
fn receive(poller: &OwnedFd, reports: &mut Vec<Report>) -> io::Result<usize> {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut room = [const { MaybeUninit::uninit() }; REPORTS];
    let (received, _) = epoll::wait(poller, &mut room, Some(&AT_ONCE))?;
    reports.extend(received.iter().map(|event| {
        let (flags, data) = (event.flags, event.data);
        Report { number: data.u64(), is_end: flags.intersects(END) }
    }));
    Ok(reports.len())
}

/// The `epoll` handler.
pub fn poll(mut round: Box<Round>) {
    let world = round.world;
    if let Err(error) = round.wait() {
        // The kernel has no reason for this.
        serving::report(&world, 0, || format!("epoll: {error}"));
        std::process::exit(1);
    }
    round.spread();
    let now = Instant::now();
    if !round.reports.is_empty() {
        // No event that follows from these reports sets an earlier deadline.
        let soon = now + world.shortest;
        round.next_look = Some(round.next_look.map_or(soon, |next| next.min(soon)));
    }
    let is_told = !round.are_told && world.server.is_stopping();
    round.are_told |= is_told;
    if is_told || round.next_look.is_some_and(|next| next <= now) {
        round.look(now, is_told);
    }
    if round.are_told && world.table().is_empty() {
        return;
    }
    round.go_on();
}
