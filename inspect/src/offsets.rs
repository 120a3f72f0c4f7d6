//! The entries of the description that reading strands needs, each looked up once.

use crate::error::Error;
use crate::layout::Layout;
use std::sync::Arc;

/// Makes a struct of entries, each with its name in the description.
macro_rules! entries {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $entry:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $(pub(crate) $field: usize,)*
        }

        impl $name {
            pub(crate) fn of(layout: &Layout) -> Result<$name, Error> {
                Ok($name { $($field: layout.need($entry)? as usize,)* })
            }

            /// Returns entries that are all 0, for tests.
            #[cfg(test)]
            pub(crate) fn zero() -> $name {
                $name { $($field: 0,)* }
            }
        }
    };
}

entries! {
    /// Where strands are, and what they consist of.
    Offsets {
        slabs: "slabs",
        large: "large",
        clusters: "clusters",
        posts: "posts",
        chunks: "slab.chunks",
        chunk_bytes: "chunk.bytes",
        head_bytes: "head.bytes",
        head_count: "head.count",
        head_block: "head.block",
        kind_magic: "kind.magic",
        kind_magic_value: "kind.magic_value",
        kind_class: "kind.class",
        kind_symbol: "kind.symbol",
        class_fibre: "class.fibre",
        class_task: "class.task",
        class_mailbox: "class.mailbox",
        kind: "strand.kind",
        wait: "strand.wait",
        stamp: "strand.stamp",
        state: "strand.state",
        refs: "strand.refs",
        cluster: "strand.cluster",
        post: "strand.post",
        bound: "strand.bound",
        priority: "strand.priority",
        after: "strand.after",
        own: "strand.own",
        parked: "state.parked",
        waiting: "state.waiting",
        finished: "state.finished",
        bound_started: "bound.started",
        bound_pinned: "bound.pinned",
        after_declined: "after.declined",
        after_resting: "after.resting",
        fibre_id: "fibre.id",
        fibre_name: "fibre.name",
        fibre_name_length: "fibre.name_length",
        fibre_scope: "fibre.scope",
        fibre_spawned_at: "fibre.spawned_at",
        fibre_carries: "fibre.carries",
        carries_timed: "carries.timed",
        fibre_cancel: "fibre.cancel",
        mail_active: "mail.active",
        task_spawned_at: "task.spawned_at",
        location_file: "location.file",
        location_length: "location.length",
        location_line: "location.line",
        location_column: "location.column",
        top_strand: "top.strand",
        top_body: "top.body",
        top_body_words: "top.body_words",
        post_cluster: "post.cluster",
        post_index: "post.index",
        post_thread: "post.thread",
        post_pulse: "post.pulse",
        post_hold: "post.hold",
        post_stack_word: "post.stack_word",
        post_task_word: "post.task_word",
        cluster_name: "cluster.name",
        cluster_name_length: "cluster.name_length",
        cycles_per_ms: "clock.cycles_per_ms",
        mutex_word: "mutex.word",
        mutex_locked: "mutex.locked",
        mutex_owner: "mutex.owner",
        rwlock_word: "rwlock.word",
        rwlock_writing: "rwlock.writing",
        rwlock_owner: "rwlock.owner",
        owner_fibre: "owner.fibre",
        owner_task: "owner.task",
        owner_thread: "owner.thread",
    }
}

impl Offsets {
    /// Says whether a strand in this state has stopped.
    pub(crate) fn is_stopped(&self, state: u32) -> bool {
        state as usize & (self.parked | self.waiting) != 0
    }

    /// Returns the number of bytes of a strand's head that are read.
    pub(crate) fn strand_bytes(&self) -> usize {
        let longest = [self.kind, self.wait, self.stamp, self.state, self.refs, self.cluster, self.post, self.own];
        longest.into_iter().max().unwrap_or(0) + 8
    }

    /// Returns the number of bytes of a strand that is not in a block that are read.
    pub(crate) fn large_bytes(&self) -> usize {
        let fields = [self.fibre_id, self.fibre_name, self.fibre_name_length, self.fibre_scope, self.fibre_spawned_at];
        let more = [self.fibre_cancel, self.fibre_carries, self.task_spawned_at];
        fields.into_iter().chain(more).max().unwrap_or(0).max(self.strand_bytes()) + 8
    }

    /// Returns the number of bytes of a post that are read.
    pub(crate) fn post_bytes(&self) -> usize {
        let words = [self.post_cluster, self.post_index, self.post_pulse, self.post_stack_word, self.post_task_word];
        words.into_iter().chain([self.post_thread, self.post_hold]).max().unwrap_or(0) + 8
    }

    /// Returns the number of bytes at the top of a stack that are read.
    pub(crate) fn top_bytes(&self) -> usize {
        (self.top_strand + 8).max(self.top_body + 8 * self.top_body_words.min(64))
    }
}

/// Names of small numbers that the description has under a prefix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<Option<Arc<str>>>);

impl Names {
    pub(crate) fn of(layout: &Layout, prefix: &str) -> Names {
        let mut names = vec![None; 256];
        for (name, number) in layout.under(prefix) {
            if let Some(place) = names.get_mut(number as usize) {
                *place = Some(name.into());
            }
        }
        Names(names)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<str>> {
        self.0.get(number as usize)?.clone()
    }
}
