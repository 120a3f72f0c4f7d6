//! Many clients at the same time.

mod limits;
mod parlour;

use limits::allow_descriptors;
use parlour::{Client, PATIENCE, Parlour};
use serde_json::json;
use std::time::Instant;

/// More than a room that is large (200), and few enough for a debug build.
const PEOPLE: usize = 500;

#[test]
fn a_crowd_in_one_room_hears_everything() {
    allow_descriptors();
    let mut parlour = Parlour::open(&["--linger", "0.2"]);
    let mut people: Vec<Client> = (0..PEOPLE).map(|number| parlour.enter(&format!("p{number}"), "hall")).collect();
    let speakers = [0, 1, 250, PEOPLE - 1];
    for speaker in speakers {
        people[speaker].say_in("hall", &format!("from {speaker}"));
    }
    for person in &mut people {
        let mut heard: Vec<String> =
            speakers.iter().map(|_| person.hear_a("said")["text"].as_str().expect("text").to_owned()).collect();
        heard.sort();
        let mut said: Vec<String> = speakers.iter().map(|speaker| format!("from {speaker}")).collect();
        said.sort();
        assert_eq!(heard, said);
    }
    // In a large room nobody is told of each who goes, but of the number.
    people.truncate(PEOPLE - 10);
    let begin = Instant::now();
    while people[0].hear_a("count")["count"] != json!(PEOPLE - 10) {
        assert!(begin.elapsed() < PATIENCE);
    }
    let counts = parlour.counts();
    assert!(counts.contains(&format!("4 messages to rooms, {} deliveries", 4 * PEOPLE)), "{counts}");
    drop(people);
    drop(parlour.named_at_last("p0"));
}

/// Sessions that end leave nothing behind.
#[test]
fn sessions_that_come_and_go_leave_no_memory() {
    let parlour = Parlour::open(&["--rate", "1000000"]);
    let round = || {
        for number in 0..100 {
            let mut client = parlour.named_at_last(&format!("p{number}"));
            client.enter("hall");
            client.say_in("hall", "hello");
            client.hear_a("said");
        }
    };
    // The pools of stacks and buffers fill.
    (0..3).for_each(|_| round());
    let before = parlour.resident();
    (0..5).for_each(|_| round());
    let after = parlour.resident();
    // 500 sessions at a page each would be 2 MB.
    assert!(after < before + (1 << 20), "{before} bytes, then {after}");
}
