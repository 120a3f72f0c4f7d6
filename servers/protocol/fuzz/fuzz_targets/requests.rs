//! Parses any bytes as a stream of requests. Nothing panics, each step takes at least one byte, and
//! the result does not depend on the bytes that follow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sinew_memcached_protocol::{LONGEST_KEY, Line, binary, line, meta, text};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Line::Whole { line: words, taken } = line(rest) {
        assert!(taken > words.len());
        let alone = line(&rest[..taken]);
        assert_eq!(alone, Line::Whole { line: words, taken });
        look(text::parse(words));
        rest = &rest[taken..];
    }
    let mut rest = bytes;
    while let binary::Frame::Whole { request, taken } = binary::parse(rest) {
        assert!(taken >= binary::HEADER);
        if let binary::Command::Get { key, .. } = request.command {
            assert!(!key.is_empty() && key.len() <= LONGEST_KEY);
        }
        rest = &rest[taken..];
    }
});

fn look(command: text::Command<'_>) {
    match command {
        text::Command::Get(get) => get.keys.for_each(|key| assert!(!key.is_empty() && key.len() <= LONGEST_KEY)),
        text::Command::Store(store) => assert!(!store.key.is_empty() && store.key.len() <= LONGEST_KEY),
        text::Command::Meta(meta::Command::Get(request) | meta::Command::Set { request, .. }) => {
            let key = request.key.decode(&mut [0; LONGEST_KEY + 2]).len();
            assert!(key <= LONGEST_KEY);
            assert!(request.flags().all(|flag| !flag.is_empty()));
        }
        _ => {}
    }
}
