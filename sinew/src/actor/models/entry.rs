//! The annex: threads that make it, and a thread that enters it while the actor ends.

use super::super::annex::Annex;
use super::super::cell::Cell;
use super::super::end::End;
use super::super::traits::Actor;
use crate::base::models::check;
use crate::mailbox::Word;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

struct Value;

impl Actor for Value {}

/// An actor, whose mailbox is its word.
struct Memory {
    word: AtomicU64,
    cell: Cell<Value>,
    told: AtomicU32,
}

impl Memory {
    fn new() -> [Arc<Memory>; 3] {
        let cell = Cell::new(Value, None);
        let memory = Arc::new(Memory { word: AtomicU64::new(0), cell, told: AtomicU32::new(0) });
        Word::of(&memory.word).claim();
        [Arc::clone(&memory), Arc::clone(&memory), memory]
    }

    /// Enters the annex, as `Untyped::enter` does.
    fn enter(&self) {
        self.cell.annex_or_new().shared().reason = Some(End::Orphaned);
        if Word::of(&self.word).has_ended_by_now() {
            self.tell_all(self.cell.annex_or_new());
        }
    }

    /// Ends, as `life::end` does.
    fn end(&self) {
        Word::of(&self.word).end();
        self.cell.annex().into_iter().for_each(|annex| self.tell_all(annex));
    }

    fn tell_all(&self, annex: &Annex) {
        use_annex(annex);
        let entry = annex.shared().reason.take();
        if entry.is_some() {
            self.told.fetch_add(1, Relaxed);
        }
    }
}

/// Uses an atomic of the annex: loom fails a use that does not come after its making. Returns the address.
fn use_annex(annex: &Annex) -> usize {
    assert!(annex.edge.is_none());
    std::ptr::from_ref(annex).addr()
}

#[test]
fn a_thread_that_enters_while_the_actor_ends_is_told_once() {
    check(2, 4, |turn| {
        let [one, two, memory] = Memory::new();
        turn.two(move || one.end(), move || two.enter());
        assert_eq!(memory.told.load(Relaxed), 1);
    });
}

#[test]
fn a_thread_that_enters_an_annex_that_is_there_is_told_once() {
    check(2, 4, |turn| {
        let [one, two, memory] = Memory::new();
        memory.cell.annex_or_new();
        turn.two(move || one.end(), move || two.enter());
        assert_eq!(memory.told.load(Relaxed), 1);
    });
}

#[test]
fn two_threads_that_need_an_annex_have_the_same_one() {
    check(2, 4, |turn| {
        let [one, two, memory] = Memory::new();
        let of = |memory: &Memory| use_annex(memory.cell.annex_or_new());
        let (one, two) = turn.two(move || of(&one), move || of(&two));
        assert_eq!((one, two), (of(&memory), of(&memory)));
    });
}

#[test]
fn an_annex_that_is_made_leaves_the_value_alone() {
    check(2, 4, |turn| {
        let [one, two, memory] = Memory::new();
        let change = move || {
            assert!(one.cell.take_value().is_some());
            assert!(one.cell.take_value().is_none());
            one.cell.put_value(Value);
        };
        turn.two(change, move || drop(two.cell.annex_or_new().shared()));
        assert!(memory.cell.annex().is_some());
        assert!(memory.cell.take_value().is_some());
    });
}

#[test]
fn a_thread_that_finds_an_annex_sees_it_as_it_was_made() {
    check(2, 4, |turn| {
        let [one, two, _] = Memory::new();
        let find = move || two.cell.annex().map(use_annex);
        let (made, found) = turn.two(move || use_annex(one.cell.annex_or_new()), find);
        assert!(found.is_none_or(|found| found == made));
    });
}
