//! Reads both outputs of a child at once. A child that fills one pipe while its parent reads the
//! other would wait for ever.

use super::{ChildStderr, ChildStdout};
use crate::cancel::{self, Cancelled};
use crate::fibre::{self, FibreBuilder};
use crate::stack::current_stack;
use crate::wait::{carried, carrying};
use std::future::poll_fn;
use std::io::{self, Read};
use std::mem::take;
use std::panic::resume_unwind;
use std::pin::pin;
use std::task::Poll;
use std::thread;

/// What a child has written to its two outputs.
pub(super) type Captured = (Vec<u8>, Vec<u8>);

/// Reads both to their ends. A second fibre reads one of them, or a second thread if the caller is
/// a kernel thread.
///
/// # Errors
/// The first error of a read.
pub(super) fn read_both(output: Option<ChildStdout>, errors: Option<ChildStderr>) -> io::Result<Captured> {
    let (Some(output), Some(errors)) = (&output, &errors) else {
        return Ok((read_all(output.as_ref())?, read_all(errors.as_ref())?));
    };
    let limits = carried();
    let read_errors = || carrying(limits, || read_all(Some(errors)));
    let (output, errors) = if current_stack().is_some() {
        fibre::scope(|scope| {
            let errors = FibreBuilder::new().spawn_scoped(scope, read_errors)?;
            let output = read_all(Some(output));
            if output.is_err() {
                scope.cancel();
            }
            io::Result::Ok((output, errors.join()))
        })?
    } else {
        thread::scope(|scope| {
            let errors = thread::Builder::new().spawn_scoped(scope, read_errors)?;
            let output = read_all(Some(output));
            io::Result::Ok((output, errors.join()))
        })?
    };
    let errors = errors.unwrap_or_else(|payload| resume_unwind(payload));
    Ok((output?, errors.map_err(own_reason)?))
}

/// Returns the caller's own reason for an error of the second fibre: a caller whose time is up cancels
/// that fibre.
fn own_reason(error: io::Error) -> io::Error {
    let is_cancelled = error.get_ref().is_some_and(|source| source.is::<Cancelled>());
    cancel::check().err().filter(|_| is_cancelled).map_or(error, io::Error::from)
}

fn read_all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// As [`read_both`], for tasks.
///
/// # Errors
/// As there.
pub(super) async fn read_both_async(output: Option<ChildStdout>, errors: Option<ChildStderr>) -> io::Result<Captured> {
    let mut output = pin!(async {
        match &output {
            Some(pipe) => pipe.read_all_async().await,
            None => Ok(Vec::new()),
        }
    });
    let mut errors = pin!(async {
        match &errors {
            Some(pipe) => pipe.read_all_async().await,
            None => Ok(Vec::new()),
        }
    });
    let (mut read_output, mut read_errors) = (None, None);
    poll_fn(|context| {
        if read_output.is_none()
            && let Poll::Ready(bytes) = output.as_mut().poll(context)
        {
            read_output = Some(bytes?);
        }
        if read_errors.is_none()
            && let Poll::Ready(bytes) = errors.as_mut().poll(context)
        {
            read_errors = Some(bytes?);
        }
        match (&mut read_output, &mut read_errors) {
            (Some(output), Some(errors)) => Poll::Ready(Ok((take(output), take(errors)))),
            _ => Poll::Pending,
        }
    })
    .await
}
