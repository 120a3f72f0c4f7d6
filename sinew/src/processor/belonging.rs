//! Where a strand belongs: its cluster, and the processor that it is bound to.
//!
//! A strand's header has the two addresses; this file knows their types. Clusters live until their
//! runtime has seen its last strand finish, and posts live as long as their cluster.
#![allow(unsafe_code)]

use super::cluster::ClusterShared;
use super::post::Post;
use crate::strand::{Kind, Priority, Ready, Strand};

impl Strand {
    /// Makes a strand that belongs to `cluster`; see [`Strand::of`].
    pub(crate) fn new(kind: &'static Kind, cluster: &ClusterShared, priority: Priority) -> Self {
        Strand::of(kind, std::ptr::from_ref(cluster).cast(), priority)
    }

    /// Returns the cluster that the strand belongs to.
    #[inline]
    pub(crate) fn cluster(&self) -> &ClusterShared {
        // SAFETY: `new` or `set_cluster` stored the address. Clusters live until their runtime has
        // seen its last strand finish, and callers ask only live strands.
        unsafe { &*self.cluster_address().cast() }
    }

    /// Makes the strand belong to `cluster`. By the strand itself.
    pub(crate) fn set_cluster(&self, cluster: &ClusterShared) {
        self.set_cluster_address(std::ptr::from_ref(cluster).cast());
    }

    /// Returns the post that the strand may not leave, if it is bound.
    #[inline]
    pub(super) fn bound_to(&self) -> Option<&Post> {
        // SAFETY: `bind` stored the address; posts live as long as their cluster.
        unsafe { self.post_address().cast::<Post>().as_ref() }
    }

    /// Returns the post that the strand was sent to, if a processor has declined to begin it. Only
    /// strands that have not begun are asked.
    #[inline]
    pub(super) fn awaited_by(&self) -> Option<&Post> {
        // SAFETY: `send_to` stored the address of a post of the strand's cluster; posts live as long as
        // their cluster.
        unsafe { self.sent_to().cast::<Post>().as_ref() }
    }

    /// Binds the strand to the processor that runs it, for `reason`. By that processor, or by the
    /// strand itself.
    pub(crate) fn bind(&self, post: &Post, reason: u8) {
        if self.bind_to(std::ptr::from_ref(post).cast(), reason) == 0 {
            post.bound_one();
        }
    }

    /// Takes `reasons` away; without a reason left, the strand is free. By its processor, or by the
    /// strand itself.
    pub(crate) fn unbind(&self, reasons: u8) {
        if let Some(post) = self.bound_to()
            && self.take_bound(reasons)
        {
            post.freed_one();
        }
    }
}

impl ClusterShared {
    /// Returns the post that a strand of this cluster may not leave, if it is bound.
    #[inline]
    pub(super) fn post_of<'a>(&'a self, ready: &Ready) -> Option<&'a Post> {
        // SAFETY: as in `bound_to`. The post outlives the strand: it lives as long as `self`.
        unsafe { ready.strand().post_address().cast::<Post>().as_ref() }
    }

    /// Returns the cluster that the strand belongs to, which is one of the runtime of `self`.
    #[inline]
    pub(super) fn cluster_of<'a>(&'a self, ready: &Ready) -> &'a ClusterShared {
        debug_assert!(self.is_of_same_runtime(ready.strand().cluster()));
        // SAFETY: as in `cluster`. The clusters of a runtime live as long as any of its processors
        // does, even if the strand ends meanwhile.
        unsafe { &*ready.strand().cluster_address().cast() }
    }
}
