//! The numbers of signals, and their names.

use std::fmt;

/// A signal of the kernel, such as [`Signal::TERM`]. The constants are those that programs wait for.
///
/// ```
/// use sinew::signal::Signal;
/// assert_eq!(Signal::TERM.to_string(), "SIGTERM");
/// assert_eq!(Signal::from_number(Signal::TERM.number()), Some(Signal::TERM));
/// assert_eq!(Signal::from_number(0), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

/// The largest number of a signal.
const LARGEST: i32 = 64;

/// Writes the constants, and the table of their names.
macro_rules! names {
    ($($(#[$doc:meta])* $NAME:ident = $number:ident;)*) => {
        impl Signal {
            $($(#[$doc])* pub const $NAME: Signal = Signal(libc::$number);)*
        }

        const NAMES: &[(Signal, &str)] = &[$((Signal::$NAME, stringify!($number))),*];
    };
}

names! {
    /// The terminal is gone. Many servers read their configuration again.
    HUP = SIGHUP;
    /// Ctrl-C.
    INT = SIGINT;
    /// Ctrl-\.
    QUIT = SIGQUIT;
    /// An end by `abort`. The process ends also if the signal is caught.
    ABRT = SIGABRT;
    /// For the program's own use.
    USR1 = SIGUSR1;
    /// For the program's own use.
    USR2 = SIGUSR2;
    /// A write to a pipe or a socket without a reader. Rust programs ignore it.
    PIPE = SIGPIPE;
    /// The time of `alarm` is up.
    ALRM = SIGALRM;
    /// A request to end, from `kill` or a service manager.
    TERM = SIGTERM;
    /// A child process has ended or stopped. [`process`](crate::process) does not need it.
    CHLD = SIGCHLD;
    /// The process goes on after it was stopped.
    CONT = SIGCONT;
    /// Ctrl-Z.
    TSTP = SIGTSTP;
    /// A read from the terminal by a process in the background.
    TTIN = SIGTTIN;
    /// A write to the terminal by a process in the background.
    TTOU = SIGTTOU;
    /// Urgent bytes at a socket.
    URG = SIGURG;
    /// The limit of CPU time is reached.
    XCPU = SIGXCPU;
    /// The limit of file size is reached.
    XFSZ = SIGXFSZ;
    /// A timer of CPU time.
    VTALRM = SIGVTALRM;
    /// A profiling timer.
    PROF = SIGPROF;
    /// The terminal has another size.
    WINCH = SIGWINCH;
    /// A descriptor is ready.
    IO = SIGIO;
    /// The power fails.
    PWR = SIGPWR;
    /// A fault: an unknown instruction. Cannot be waited for.
    ILL = SIGILL;
    /// A fault: a breakpoint. Cannot be waited for.
    TRAP = SIGTRAP;
    /// A fault: memory that is not there. Cannot be waited for.
    BUS = SIGBUS;
    /// A fault: arithmetic. Cannot be waited for.
    FPE = SIGFPE;
    /// A fault: memory that may not be used. Cannot be waited for.
    SEGV = SIGSEGV;
    /// A fault: a system call that may not be made. Cannot be waited for.
    SYS = SIGSYS;
    /// Ends the process. Cannot be waited for.
    KILL = SIGKILL;
    /// Stops the process. Cannot be waited for.
    STOP = SIGSTOP;
}

impl Signal {
    /// Returns the signal of this number, such as `libc::SIGTERM`; `None` if there is none.
    #[must_use]
    pub const fn from_number(number: i32) -> Option<Signal> {
        if number >= 1 && number <= LARGEST { Some(Signal(number)) } else { None }
    }

    /// Returns the kernel's number of the signal.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Returns the reason why nobody can wait for the signal, if there is one.
    pub(super) fn refusal(self) -> Option<&'static str> {
        const FAULTS: [Signal; 6] = [Signal::ILL, Signal::TRAP, Signal::BUS, Signal::FPE, Signal::SEGV, Signal::SYS];
        match self {
            Signal::KILL | Signal::STOP => Some("the kernel does not let a process catch it"),
            fault if FAULTS.contains(&fault) => Some("a fault cannot wait: its thread cannot go on"),
            Signal(32 | 33) => Some("the C library needs it"),
            _ => None,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(signal, _)| signal == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A set of signals, in the order of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set(pub(super) u64);

impl Set {
    pub(super) fn of(signal: Signal) -> Set {
        Set(1 << (signal.0 - 1))
    }

    pub(super) fn with(self, signal: Signal) -> Set {
        Set(self.0 | Set::of(signal).0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn contains(self, signal: Signal) -> bool {
        self.0 & Set::of(signal).0 != 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Signal> {
        (1..=LARGEST).map(Signal).filter(move |&signal| self.contains(signal))
    }
}
