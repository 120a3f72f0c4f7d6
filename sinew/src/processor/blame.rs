//! Debug builds say which strand has blocked its processor in the kernel.

use super::cluster::ClusterShared;
use super::post::Post;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// The strand that a processor ran last. Written by the processor, read by the warden.
#[derive(Default)]
pub(crate) struct Suspect(Mutex<Option<Description>>);

struct Description {
    kind: &'static str,
    name: Option<Box<str>>,
    /// Tasks do not know it.
    spawned_at: Option<&'static Location<'static>>,
}

impl Suspect {
    /// Notes that a fibre with this name, spawned there, runs now.
    pub(crate) fn is_fibre(&self, name: Option<&str>, spawned_at: &'static Location<'static>) {
        self.is(Description { kind: "fibre", name: name.map(Box::from), spawned_at: Some(spawned_at) });
    }

    /// Notes that a task runs now.
    pub(super) fn is_task(&self) {
        self.is(Description { kind: "task", name: None, spawned_at: None });
    }

    fn is(&self, description: Description) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(description);
    }
}

/// Says on standard error which strand blocks the processor at `post`, once for each place in the program
/// that such strands are spawned at.
pub(super) fn warn(cluster: &ClusterShared, post: &Post) {
    static SAID: Mutex<Option<HashSet<Option<&'static Location<'static>>>>> = Mutex::new(None);
    let suspect = post.suspect().0.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Description { kind, name, spawned_at }) = &*suspect else { return };
    if !SAID.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(*spawned_at) {
        return;
    }
    let place = spawned_at.map_or(String::new(), |place| format!(", spawned at {place},"));
    let name = name.as_deref().map_or(String::new(), |name| format!(" '{name}'"));
    eprintln!(
        "sinew: {kind}{name}{place} blocks processor {}-{} in the kernel, and with it {} fibres; \
         call what blocks by sinew::blocking, or use what Sinew has in its place",
        cluster.name(),
        post.id().index(),
        post.bound(),
    );
}
