//! The kernel threads of a cluster: processors are added and removed.
//!
//! The essay of [`processor`](crate::processor) says how a processor retires.

use super::{ClusterShared, ResizeError};
use crate::base::{fatal, kernel};
use crate::processor::post::{Order, Post};
use crate::sched::{MAX_PROCESSORS, ProcessorId};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, mpsc};
use std::{io, thread};

/// The processors of a cluster, with their threads.
#[derive(Default)]
pub(super) struct Crew {
    members: Vec<Member>,
    /// The CPUs that processors are pinned to, in turn. If it is empty, processors are not pinned.
    cpus: Vec<usize>,
    /// Whether the runtime has ended.
    stopped: bool,
    /// The number of looks at which a spare was not needed.
    needless_looks: u32,
}

struct Member {
    post: Arc<Post>,
    thread: thread::JoinHandle<()>,
    retiring: bool,
    /// Whether it stands in for a processor that is held up.
    spare: bool,
}

impl Member {
    /// Says whether this is a processor that the program asked for, and not for its removal.
    fn is_regular(&self) -> bool {
        !self.retiring && !self.spare
    }
}

impl Crew {
    pub(super) fn new(cpus: Vec<usize>) -> Crew {
        Crew { cpus, ..Crew::default() }
    }

    /// Joins the threads of processors that have ended.
    fn dismiss_ended(&mut self) {
        for member in self.members.extract_if(.., |member| member.thread.is_finished()) {
            let _ = member.thread.join();
        }
    }

    /// Returns the lowest number that no processor has.
    fn free_number(&self) -> Option<usize> {
        let is_free = |index: &usize| self.members.iter().all(|member| member.post.id().index() != *index);
        (0..MAX_PROCESSORS).find(is_free)
    }

    /// Returns the CPU that the next processor is pinned to.
    fn next_cpu(&self) -> Option<usize> {
        (!self.cpus.is_empty()).then(|| self.cpus[self.members.len() % self.cpus.len()])
    }

    /// Returns the numbers of the processors that are not retiring.
    pub(super) fn serving_ids(&self) -> Vec<ProcessorId> {
        self.members.iter().filter(|member| member.is_regular()).map(|member| member.post.id()).collect()
    }

    /// Returns the number of removed processors that still run strands.
    pub(super) fn retiring(&mut self) -> usize {
        self.dismiss_ended();
        self.members.iter().filter(|member| member.retiring && !member.spare).count()
    }
}

impl ClusterShared {
    pub(super) fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` on a thread of the cluster's home. Returns its result.
    fn at_home(&self, f: impl FnOnce(&ClusterShared) -> io::Result<()> + Send + 'static) -> Result<(), ResizeError> {
        let cluster = self.to_arc();
        self.threads.call(Box::new(move || f(&cluster))).map_err(ResizeError::Kernel)
    }

    /// Starts one more processor. Returns its number.
    pub(super) fn hire(&self) -> Result<ProcessorId, ResizeError> {
        self.hire_into(self.crew(), false)
    }

    fn hire_into(&self, mut crew: MutexGuard<'_, Crew>, spare: bool) -> Result<ProcessorId, ResizeError> {
        if crew.stopped {
            return Err(ResizeError::Stopped);
        }
        crew.dismiss_ended();
        let index = crew.free_number().ok_or(ResizeError::TooMany)?;
        let id = ProcessorId(index as u16);
        let post = Arc::clone(self.posts[index].get_or_init(|| Post::new(id, std::ptr::from_ref(self).addr())));
        self.posts_used.fetch_max(index + 1, Ordering::Relaxed);
        post.give_order(Order::Serve);
        if !crew.members.is_empty() {
            self.idle.expect_company();
        }
        self.at_home(move |cluster| {
            cluster.drivers.reclaim(id);
            Ok(())
        })?;
        let thread = self.start_thread(&post, crew.next_cpu()).map_err(ResizeError::Kernel)?;
        self.serving.fetch_add(1, Ordering::Relaxed);
        crew.members.push(Member { post, thread, retiring: false, spare });
        Ok(id)
    }

    /// Starts the kernel thread of a processor. Returns when the thread is pinned to its CPU.
    fn start_thread(&self, post: &Arc<Post>, cpu: Option<usize>) -> io::Result<thread::JoinHandle<()>> {
        let (cluster, its_post, serve) = (self.to_arc(), Arc::clone(post), self.serve);
        let (report, reported) = mpsc::channel();
        let name = format!("{}-{}", self.name, post.id().index());
        let thread = self.threads.spawn(
            name,
            Box::new(move || {
                let pinned = cpu.map_or(Ok(()), |cpu| kernel::pin_thread(&[cpu]));
                let failed = pinned.is_err();
                let _ = report.send(pinned);
                if !failed {
                    serve(cluster, its_post);
                }
            }),
        )?;
        reported.recv().expect("the thread reports before it serves")?;
        Ok(thread)
    }

    /// Lets one processor retire: the given one, or else the one that was added last. Returns its
    /// number.
    pub(super) fn dismiss(&self, which: Option<ProcessorId>) -> Result<ProcessorId, ResizeError> {
        let crew = self.crew();
        if crew.stopped {
            return Err(ResizeError::Stopped);
        }
        if crew.members.iter().filter(|member| member.is_regular()).count() < 2 {
            return Err(ResizeError::LastProcessor);
        }
        let fits = |member: &Member| member.is_regular() && which.is_none_or(|id| id == member.post.id());
        let leaving = crew.members.iter().rposition(fits).ok_or(ResizeError::NoSuchProcessor)?;
        self.dismiss_from(crew, leaving)
    }

    /// Lets the member at this index retire. Another processor serves.
    fn dismiss_from(&self, mut crew: MutexGuard<'_, Crew>, leaving: usize) -> Result<ProcessorId, ResizeError> {
        let stays = |(index, member): &(usize, &Member)| *index != leaving && !member.retiring;
        let heir = crew.members.iter().enumerate().find(stays).expect("there are at least two").1.post.id();
        let id = crew.members[leaving].post.id();
        self.at_home(move |cluster| cluster.drivers.bequeath(id, heir, &cluster.idle))?;
        let member = &mut crew.members[leaving];
        member.retiring = true;
        member.post.give_order(Order::Retire);
        drop(crew);
        self.serving.fetch_sub(1, Ordering::Relaxed);
        self.idle.wake_processor(id);
        Ok(id)
    }

    /// Starts a spare processor if fewer serve than `needed`, and lets one retire if more serve than
    /// that for `patience` calls. Returns the number of spares that serve. By the warden.
    pub(crate) fn adjust_spares(&self, needed: u32, patience: u32) -> u32 {
        let serving = self.spares.load(Ordering::Relaxed);
        if serving == 0 && needed == 0 {
            return 0;
        }
        let mut crew = self.crew();
        crew.dismiss_ended();
        crew.needless_looks = if serving > needed { crew.needless_looks + 1 } else { 0 };
        if serving < needed && crew.members.iter().filter(|member| member.spare).count() < self.most_spares {
            // If the kernel refuses, the next look tries again.
            if self.hire_into(crew, true).is_ok() {
                self.spares.fetch_add(1, Ordering::Relaxed);
            }
        } else if crew.needless_looks > patience {
            crew.needless_looks = 0;
            let is_serving = |member: &Member| member.spare && !member.retiring;
            if let Some(leaving) = crew.members.iter().rposition(is_serving)
                && self.dismiss_from(crew, leaving).is_ok()
            {
                self.spares.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.spares.load(Ordering::Relaxed)
    }

    /// Ends all processors. Every strand of the runtime has finished.
    pub(crate) fn stop(&self) {
        let mut crew = self.crew();
        crew.stopped = true;
        for member in &crew.members {
            member.post.give_order(Order::Stop);
            self.idle.wake_processor(member.post.id());
        }
        let members = std::mem::take(&mut crew.members);
        drop(crew);
        for member in members {
            if member.thread.join().is_err() {
                fatal("a processor panicked");
            }
        }
        self.drivers.stop();
    }
}
