//! Messages of `sinew files` that are altered, repeated, left out, moved or cut short on their way.

mod vault;

use std::io::Write;
use std::process::Output;
use std::sync::{Arc, Mutex};
use vault::{HELLO, Raw, Site, Tamper, Vault, Way, is_closed, noise, said};

/// The size of the file. Its answer has four records.
const SIZE: usize = 200_000;

fn vault() -> Vault {
    Vault::serve(Site::new().file("file", noise(SIZE)), &["--verbose"])
}

/// Gets the file past the man in the middle.
fn get(vault: &Vault, change: impl Fn(Way, usize, Vec<u8>) -> Option<Vec<u8>> + Send + Sync + 'static) -> Output {
    let tamper = Tamper::new(vault.address, change);
    vault.ask_at(tamper.address, "get", &["file", "--output", "copy"])
}

/// Expects that the client fails with one of these words, and keeps nothing.
fn assert_refused(vault: &Vault, output: &Output, words: &[&str]) {
    assert!(!output.status.success(), "{output:?}");
    assert!(words.iter().any(|word| said(output).contains(word)), "{output:?}");
    let names = std::fs::read_dir(vault.site.above()).expect("the directory").flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name().into_string().expect("a name of text")).collect();
    assert!(!names.iter().any(|name| name.contains("copy")), "{names:?}");
}

const ALTERED: &str = "altered, repeated, left out or moved";

#[test]
fn messages_that_are_forwarded_unchanged_are_understood() {
    let vault = vault();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let output = get(&vault, move |way, number, message| {
        kept.lock().unwrap().push((way, number, message.clone()));
        Some(message)
    });
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(std::fs::read(vault.key("copy")).expect("the copy"), noise(SIZE));
    let seen = seen.lock().unwrap();
    assert!(seen.iter().any(|(way, number, _)| (*way, *number) == (Way::ToClient, 4)), "four records");
    // Neither the name nor the content can be read on the way.
    let content = noise(SIZE);
    for (_, _, message) in seen.iter() {
        let has = |bytes: &[u8]| message.windows(bytes.len()).any(|window| window == bytes);
        assert!(!has(b"file") && !has(&content[1000..1008]));
    }
}

#[test]
fn altered_handshakes_are_refused() {
    let vault = vault();
    // The client's magic, cipher, ephemeral key, encrypted key and its tag; the server's ephemeral
    // key, verdict and tag.
    let places = [0, 7, HELLO - 1, HELLO, HELLO + 40, HELLO + 70, HELLO + 95];
    let places = places.map(|at| (Way::ToServer, at)).into_iter().chain([0, 32, 33, 48].map(|at| (Way::ToClient, at)));
    for (where_to, at) in places {
        let output = get(&vault, move |way, number, mut message| {
            if (way, number) == (where_to, 0) {
                message[at] ^= 1;
            }
            Some(message)
        });
        assert_refused(&vault, &output, &["the server ended the handshake", "does not come from the owner"]);
    }
    vault.has_said(&["127.0.0.1", "the handshake was altered, or is meant for another server"]);
    vault.has_said(&["127.0.0.1", "this is not a client"]);
}

/// The other cipher's number is understood, but the handshake does not vouch for it.
#[test]
fn a_changed_choice_of_the_cipher_is_refused() {
    let vault = vault();
    let output = get(&vault, |way, number, mut message| {
        if (way, number) == (Way::ToServer, 0) {
            message[HELLO - 1] ^= 3;
        }
        Some(message)
    });
    assert_refused(&vault, &output, &["the server ended the handshake"]);
    vault.has_said(&["the handshake was altered"]);
}

#[test]
fn altered_answers_are_refused() {
    let vault = vault();
    for (record, at) in [(1, 2), (1, 30), (2, 1000), (3, usize::MAX), (4, 0), (2, 1)] {
        let output = get(&vault, move |way, number, mut message| {
            if (way, number) == (Way::ToClient, record) {
                let at = at.min(message.len() - 1);
                message[at] ^= 0x10;
            }
            Some(message)
        });
        // A changed length makes the client wait for bytes that do not come, or cuts the record.
        assert_refused(&vault, &output, &[ALTERED, "cut short", "closed the connection"]);
    }
}

#[test]
fn altered_requests_end_the_connection_and_are_reported() {
    let vault = vault();
    for at in [2, 5, 20] {
        let output = get(&vault, move |way, number, mut message| {
            if (way, number) == (Way::ToServer, 1) {
                message[at] ^= 1;
            }
            Some(message)
        });
        assert_refused(&vault, &output, &["closed the connection before the end"]);
    }
    vault.has_said(&["127.0.0.1", "(alice)", ALTERED]);
    assert!(!vault.messages().contains(": sent"), "nothing was answered: {}", vault.messages());
}

#[test]
fn repeated_answers_are_refused() {
    let vault = vault();
    let output = get(&vault, |way, number, message| match (way, number) {
        (Way::ToClient, 2) => Some([&message[..], &message].concat()),
        _ => Some(message),
    });
    assert_refused(&vault, &output, &[ALTERED]);
}

#[test]
fn answers_that_are_left_out_or_moved_are_refused() {
    let vault = vault();
    let output = get(&vault, |way, number, message| match (way, number) {
        (Way::ToClient, 2) => Some(Vec::new()),
        _ => Some(message),
    });
    assert_refused(&vault, &output, &[ALTERED]);
    let held = Mutex::new(Vec::new());
    let output = get(&vault, move |way, number, message| match (way, number) {
        (Way::ToClient, 2) => {
            *held.lock().unwrap() = message;
            Some(Vec::new())
        }
        (Way::ToClient, 3) => Some([message, std::mem::take(&mut held.lock().unwrap())].concat()),
        _ => Some(message),
    });
    assert_refused(&vault, &output, &[ALTERED]);
}

#[test]
fn answers_that_end_early_are_refused() {
    let vault = vault();
    for last in [1, 3] {
        let output = get(&vault, move |way, number, message| match way {
            Way::ToClient if number > last => None,
            _ => Some(message),
        });
        assert_refused(&vault, &output, &["closed the connection before the end of the answer"]);
    }
    let half = |way, number, mut message: Vec<u8>| match (way, number) {
        (Way::ToClient, 2) => {
            message.truncate(message.len() / 2);
            Some(message)
        }
        (Way::ToClient, 3) => None,
        _ => Some(message),
    };
    assert_refused(&vault, &get(&vault, half), &["cut short"]);
}

#[test]
fn a_repeated_request_ends_the_connection_and_is_reported() {
    let vault = vault();
    let mut raw = vault.raw();
    let request = raw.seal(b"l");
    raw.stream.write_all(&request).expect("send");
    assert_eq!(raw.hear().expect("an answer")[0], b'n');
    raw.stream.write_all(&request).expect("send");
    assert!(raw.hear().is_err());
    vault.has_said(&["(alice)", ALTERED]);
}

#[test]
fn requests_that_are_moved_or_left_out_end_the_connection() {
    let vault = vault();
    let send = |raw: &mut Raw, requests: &[&[u8]]| raw.stream.write_all(&requests.concat()).expect("send");
    let mut raw = vault.raw();
    let (one, two) = (raw.seal(b"l"), raw.seal(b"gfile"));
    send(&mut raw, &[&two, &one]);
    assert!(raw.hear().is_err());
    let mut raw = vault.raw();
    let (one, _, three) = (raw.seal(b"l"), raw.seal(b"l"), raw.seal(b"l"));
    send(&mut raw, &[&one, &three]);
    assert_eq!(raw.hear().expect("the first answer")[0], b'n');
    assert!(raw.hear().is_err());
}

#[test]
fn a_request_that_is_cut_short_is_reported() {
    let vault = vault();
    let mut raw = vault.raw();
    let request = raw.seal(b"gfile");
    raw.stream.write_all(&request[..request.len() - 1]).expect("send");
    raw.stream.shutdown(std::net::Shutdown::Write).expect("the end");
    assert!(raw.hear().is_err());
    vault.has_said(&["(alice)", "a record was cut short"]);
}

/// A listener that repeats what a client has said gets nothing for it.
#[test]
fn a_repeated_session_gets_no_answer() {
    let vault = vault();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    let output = get(&vault, move |way, _, message| {
        if way == Way::ToServer {
            kept.lock().unwrap().extend_from_slice(&message);
        }
        Some(message)
    });
    assert!(output.status.success());
    let mut stream = vault.connect();
    stream.write_all(&heard.lock().unwrap()).expect("send");
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    assert!(answer.len() <= vault::SECOND, "{} bytes", answer.len());
    assert!(is_closed(&mut stream));
    vault.has_said(&["(alice)", ALTERED]);
    assert_eq!(vault.messages().matches(": sent").count(), 1, "{}", vault.messages());
}
