//! Properties that hold for any bytes.

use proptest::prelude::*;
use sinew_memcached_protocol::{LONGEST_KEY, LONGEST_LINE, Line, Verb, base64, binary, line, meta, number, text};

/// Returns keys: no blank, no line feed, no NUL, no carriage return at the end.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(33u8..=255, 1..=LONGEST_KEY)
}

/// Returns bytes that often look like requests.
fn requestlike() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "get",
        "gets",
        "gat",
        "set",
        "cas",
        "add",
        "incr",
        "delete",
        "touch",
        "flush_all",
        "verbosity",
        "stats",
        "mg",
        "ms",
        "md",
        "ma",
        "me",
        "mn",
        "0",
        "1",
        "-1",
        "4294967296",
        "noreply",
        "key",
        "b",
        "v",
        "q",
        "Tx",
        "T5",
        "MA",
        "C1",
        "Oq",
        "k",
        "N1",
        "",
        "\0",
        "\t",
        "YWJj",
        "18446744073709551616",
    ]);
    let word = prop_oneof![4 => words.prop_map(|word| word.as_bytes().to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..8)];
    prop::collection::vec(word, 0..24).prop_map(|words| words.join(&b' '))
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        if let Line::Whole { line, taken } = line(&bytes) {
            prop_assert!(taken <= bytes.len() && line.len() < taken);
            let _ = format!("{:?}", text::parse(line));
        }
        let _ = format!("{:?}", binary::parse(&bytes));
        let mut request = bytes.clone();
        request.insert(0, binary::REQUEST);
        if let binary::Frame::Whole { taken, .. } = binary::parse(&request) {
            prop_assert!(taken <= request.len());
        }
    }

    #[test]
    fn bytes_like_requests_never_panic(words in requestlike()) {
        let command = text::parse(&words);
        if let text::Command::Get(get) = command {
            prop_assert!(get.keys.into_iter().all(|key| !key.is_empty() && key.len() <= LONGEST_KEY));
        }
        if let text::Command::Meta(meta::Command::Get(request)) = command {
            let mut room = [0; LONGEST_KEY + 2];
            prop_assert!(request.key.decode(&mut room).len() <= LONGEST_KEY);
        }
        let _ = format!("{command:?}");
    }

    #[test]
    fn a_line_is_found_only_when_it_is_complete(words in prop::collection::vec(1u8..=9, 0..200), rest in prop::collection::vec(any::<u8>(), 0..50)) {
        let mut bytes = words.clone();
        bytes.extend_from_slice(b"\r\n");
        let length = bytes.len();
        for end in 0..length {
            prop_assert_eq!(line(&bytes[..end]), Line::Partial);
        }
        bytes.extend_from_slice(&rest);
        let expected: &[u8] = if words.is_empty() { b"\r" } else { &words };
        prop_assert_eq!(line(&bytes), Line::Whole { line: expected, taken: length });
    }

    #[test]
    fn a_line_that_is_too_long_is_refused(mut words in prop::collection::vec(11u8..=255, LONGEST_LINE + 1..LONGEST_LINE + 100), many in any::<bool>()) {
        if many {
            words.splice(..0, *b"  get ");
        }
        prop_assert_eq!(line(&words), if many { Line::Partial } else { Line::Endless });
        prop_assert_eq!(line(&words[..LONGEST_LINE]), Line::Partial);
    }

    #[test]
    fn store_requests_are_parsed_as_they_were_written(key in key(), flags in any::<u32>(), expiry in any::<i32>(), length in 0..i32::MAX - 1, unique in any::<u64>(), noreply in any::<bool>(), verb in 0..6usize) {
        let (name, verb) = [
            ("set", Verb::Set), ("add", Verb::Add), ("replace", Verb::Replace), ("append", Verb::Append),
            ("prepend", Verb::Prepend), ("cas", Verb::Cas),
        ][verb];
        let mut words = name.as_bytes().to_vec();
        words.push(b' ');
        words.extend_from_slice(&key);
        words.extend_from_slice(format!(" {flags} {expiry} {length}").as_bytes());
        let unique = if verb == Verb::Cas { unique } else { 0 };
        if verb == Verb::Cas {
            words.extend_from_slice(format!(" {unique}").as_bytes());
        }
        if noreply {
            words.extend_from_slice(b" noreply");
        }
        let text::Command::Store(store) = text::parse(&words) else { panic!("not to store") };
        prop_assert_eq!(store, text::Store { verb, key: &key, flags, expiry, length: length as u32, unique, noreply });
    }

    #[test]
    fn keys_are_returned_in_order(keys in prop::collection::vec(key(), 1..40), blanks in 1..4usize) {
        let line = [&[b"get".to_vec()], &keys[..]].concat().join(" ".repeat(blanks).as_bytes());
        let text::Command::Get(get) = text::parse(&line) else { panic!("not to get") };
        prop_assert!(get.keys.eq(keys.iter().map(Vec::as_slice)));
        prop_assert!(!get.unique && get.touch.is_none());
    }

    #[test]
    fn a_key_that_is_too_long_refuses_the_request(keys in prop::collection::vec(key(), 0..5), at in 0..5usize) {
        let mut words = vec![b"gets".to_vec()];
        words.extend(keys);
        words.insert(words.len().min(at + 1), vec![b'k'; LONGEST_KEY + 1]);
        let line = words.join(&b' ');
        let text::Command::Refused(refusal) = text::parse(&line) else { panic!("not refused") };
        prop_assert_eq!(refusal.text, "CLIENT_ERROR bad command line format");
    }

    #[test]
    fn meta_flags_are_parsed_as_they_were_written(key in key(), expiry in any::<i32>(), unique in any::<u64>(), length in 0..i32::MAX - 1, quiet in any::<bool>()) {
        let quiet_flag = if quiet { " q" } else { "" };
        let mut words = b"ms ".to_vec();
        words.extend_from_slice(&key);
        words.extend_from_slice(format!(" {length} T{expiry} C{unique} MR{quiet_flag}").as_bytes());
        let text::Command::Meta(meta::Command::Set { request, verb, length: read }) = text::parse(&words) else { panic!("not to set") };
        prop_assert_eq!((verb, read), (Verb::Cas, length as u32));
        prop_assert_eq!((request.key, request.expiry, request.unique, request.quiet), (meta::Key::Plain(&key), Some(expiry), Some(unique), quiet));
    }

    #[test]
    fn numbers_are_parsed_as_they_were_written(value in any::<u64>(), signed in any::<i32>()) {
        let mut text = Vec::new();
        number::push(&mut text, value);
        prop_assert_eq!(String::from_utf8_lossy(&text), value.to_string());
        prop_assert_eq!(number::unsigned(&text), Some(value));
        prop_assert_eq!(number::unsigned_short(&text), Some(value as u32));
        prop_assert_eq!(number::signed(signed.to_string().as_bytes()), Some(signed));
        let too_large = format!("{value}{:020}", 7);
        prop_assert_eq!(number::unsigned(too_large.as_bytes()).is_some(), value == 0);
    }

    #[test]
    fn base64_decodes_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 1..=180), noise in prop::collection::vec(0usize..200, 0..5)) {
        let mut text = Vec::new();
        base64::push(&mut text, &bytes);
        prop_assert_eq!(text.len() % 4, 0);
        for at in noise {
            text.insert(at % text.len(), b'!');
        }
        let mut room = [0; 256];
        prop_assert_eq!(base64::decode(&text, &mut room), Some(&bytes[..]));
        text.push(b'A');
        prop_assert_eq!(base64::decode(&text, &mut room), None);
    }

    #[test]
    fn binary_requests_are_complete_without_their_value(key in key(), value in prop::collection::vec(any::<u8>(), 0..50), flags in any::<u32>(), expiry in any::<u32>(), unique in any::<u64>()) {
        let mut bytes = vec![binary::REQUEST, 0x01];
        bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[8, 0, 0, 0]);
        bytes.extend_from_slice(&((8 + key.len() + value.len()) as u32).to_be_bytes());
        bytes.extend_from_slice(b"same");
        bytes.extend_from_slice(&unique.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&expiry.to_be_bytes());
        bytes.extend_from_slice(&key);
        let head = bytes.len();
        bytes.extend_from_slice(&value);
        for end in 0..head {
            prop_assert!(matches!(binary::parse(&bytes[..end]), binary::Frame::Partial));
        }
        for end in head..=bytes.len() {
            let binary::Frame::Whole { request, taken } = binary::parse(&bytes[..end]) else { panic!("not whole") };
            let length = value.len() as u32;
            prop_assert_eq!(request.command, binary::Command::Store { verb: Verb::Set, key: &key, flags, expiry, length });
            prop_assert_eq!((taken, request.unique, request.opaque, request.quiet), (head, unique, *b"same", false));
        }
    }
}
