//! Parsing allocates no memory.
#![allow(unsafe_code)]

use sinew_memcached_protocol::{LONGEST_KEY, Line, binary, line, meta, text};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: it forwards to the system's allocator, which upholds the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn parsing_allocates_nothing() {
    let lines: &[&[u8]] = &[
        b"get a b c\r\n",
        b"gat 0 a\r\n",
        b"set a 0 0 5\r\nhello\r\n",
        b"mg YWJj b v k Oopaque T5\r\n",
        b"ms a 5 T0 F1 MA\r\n",
        b"nonsense and more\r\n",
    ];
    let mut frame = [0; 27];
    (frame[0], frame[3], frame[11]) = (binary::REQUEST, 3, 3);
    let (mut keys, before) = (0, ALLOCATIONS.load(Relaxed));
    for bytes in lines {
        let Line::Whole { line, .. } = line(black_box(bytes)) else { panic!("not a line") };
        match text::parse(line) {
            text::Command::Get(get) => keys += get.keys.count(),
            text::Command::Meta(meta::Command::Get(request)) => {
                keys += request.key.decode(&mut [0; LONGEST_KEY + 2]).len() / 3;
            }
            other => drop(black_box(other)),
        }
    }
    assert!(matches!(binary::parse(black_box(&frame)), binary::Frame::Whole { .. }));
    assert_eq!((keys, ALLOCATIONS.load(Relaxed) - before), (5, 0));
}
