//! What a server says on standard error, to whoever looks after it.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Says it in a line of its own. Nobody has to be there to read it: a server does not end
/// because its messages cannot be written, as it would by `eprintln!`.
#[cold]
#[inline(never)]
pub fn say(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}
