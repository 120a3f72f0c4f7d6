//! A chat: names, rooms, direct messages, history.

mod parlour;

use parlour::{PATIENCE, Parlour};
use serde_json::{Value, json};
use std::time::Instant;

#[test]
fn two_people_talk_in_a_room() {
    let parlour = Parlour::open(&[]);
    let mut ada = parlour.named("Ada");
    let (entered, history) = ada.enter("Tea");
    assert_eq!((&entered["count"], &entered["members"]), (&json!(1), &json!(["Ada"])));
    assert!(history.is_empty());
    let mut ben = parlour.named("ben");
    let (entered, _) = ben.enter("tea");
    assert_eq!((&entered["room"], &entered["count"]), (&json!("Tea"), &json!(2)), "rooms have one spelling");
    assert_eq!(ada.hear(), json!({ "type": "joined", "room": "Tea", "name": "ben", "count": 2 }));
    for (number, text) in ["hello", "<b>&amp;\n\t\"quoted\" \u{1f375}"].into_iter().enumerate() {
        ben.say_in("TEA", text);
        for person in [&mut ada, &mut ben] {
            let said = person.hear();
            assert!(said["at"].as_u64().is_some_and(|at| at > 1_600_000_000_000), "{said}");
            let expected = json!({
                "type": "said", "room": "Tea", "number": number + 1, "from": "ben", "text": text, "at": said["at"]
            });
            assert_eq!(said, expected);
        }
    }
    ben.say(json!({ "type": "leave", "room": "tea" }));
    assert_eq!(ben.hear()["type"], "parted");
    assert_eq!(ada.hear(), json!({ "type": "left", "room": "Tea", "name": "ben", "count": 1 }));
    ben.say_in("tea", "still here?");
    ben.expect_error("not-there");
    drop(ben);
    ada.say_in("tea", "alone");
    assert_eq!(ada.hear()["text"], "alone");
}

#[test]
fn a_name_is_taken_once_and_is_free_when_its_session_ends() {
    let parlour = Parlour::open(&[]);
    let mut other = parlour.connect();
    other.say(json!({ "type": "join", "room": "tea" }));
    other.expect_error("nameless");
    let mut ada = parlour.named("Ada");
    for name in ["Ada", "ada", "ADA"] {
        other.say(json!({ "type": "name", "name": name }));
        let refused = other.hear();
        assert_eq!((&refused["code"], &refused["about"]), (&json!("name-taken"), &json!(name)));
        assert!(refused["text"].as_str().is_some_and(|text| text.contains("somebody here has this name")));
    }
    ada.say(json!({ "type": "name", "name": "Lovelace" }));
    ada.expect_error("named");
    // The same connection may try another name.
    other.say(json!({ "type": "name", "name": "Lovelace" }));
    assert_eq!(other.hear(), json!({ "type": "welcome", "name": "Lovelace" }));
    // By a close frame, and by the end of the connection without a word.
    ada.socket.close(None).expect("close");
    drop(parlour.named_at_last("ada"));
    drop(parlour.named_at_last("ada"));
}

#[test]
fn those_who_vanish_leave_their_rooms() {
    let parlour = Parlour::open(&[]);
    let mut ada = parlour.enter("ada", "tea");
    drop(parlour.enter("ben", "tea"));
    assert_eq!(ada.hear()["type"], "joined");
    assert_eq!(ada.hear(), json!({ "type": "left", "room": "tea", "name": "ben", "count": 1 }));
}

#[test]
fn direct_messages_reach_one_person() {
    let parlour = Parlour::open(&[]);
    let mut ada = parlour.enter("ada", "tea");
    let mut ben = parlour.enter("Ben", "tea");
    let mut eve = parlour.enter("eve", "tea");
    ada.say(json!({ "type": "direct", "to": "ben", "text": "psst" }));
    for person in [&mut ada, &mut ben] {
        let direct = person.hear_a("direct");
        let expected = json!({ "type": "direct", "from": "ada", "to": "Ben", "text": "psst", "at": direct["at"] });
        assert_eq!(direct, expected);
    }
    ada.say(json!({ "type": "direct", "to": "ada", "text": "note to self" }));
    assert_eq!(ada.hear_a("direct")["text"], "note to self");
    ada.say(json!({ "type": "direct", "to": "nobody", "text": "psst" }));
    ada.expect_error("nobody");
    // Eve gets nothing of it.
    eve.say_in("tea", "what?");
    assert_eq!(eve.hear()["text"], "what?");
}

/// Waits until the list of rooms is as expected.
fn expect_rooms(parlour: &Parlour, name: &str, expected: &Value) {
    let mut client = parlour.named_at_last(name);
    let begin = Instant::now();
    loop {
        client.say(json!({ "type": "rooms" }));
        let rooms = client.hear();
        match rooms["rooms"] == *expected {
            true => return,
            false => assert!(begin.elapsed() < PATIENCE, "{rooms}"),
        }
    }
}

#[test]
fn those_who_join_later_get_the_last_messages() {
    let parlour = Parlour::open(&["--history", "3", "--rate", "1000"]);
    let mut ada = parlour.enter("ada", "tea");
    for number in 1..=5 {
        ada.say_in("tea", &number.to_string());
    }
    (1..=5).for_each(|_| drop(ada.hear()));
    let (_, history) = parlour.named("ben").enter("tea");
    let texts: Vec<_> = history.iter().map(|said| (said["number"].as_u64(), said["text"].as_str())).collect();
    assert_eq!(texts, [(Some(3), Some("3")), (Some(4), Some("4")), (Some(5), Some("5"))]);
    // The room remembers without members, too.
    drop(ada);
    expect_rooms(&parlour, "eve", &json!([{ "room": "tea", "count": 0 }]));
    let (entered, history) = parlour.named("carl").enter("tea");
    assert_eq!((&entered["count"], history.len()), (&json!(1), 3));
}

#[test]
fn rooms_without_members_are_freed() {
    let parlour = Parlour::open(&["--keep", "0.2", "--rooms", "2", "--rate", "100000"]);
    let mut ada = parlour.enter("ada", "tea");
    let mut ben = parlour.enter("ben", "coffee");
    ada.say(json!({ "type": "join", "room": "milk" }));
    ada.expect_error("no-room");
    expect_rooms(&parlour, "eve", &json!([{ "room": "coffee", "count": 1 }, { "room": "tea", "count": 1 }]));
    ben.say_in("coffee", "strong");
    assert_eq!(ben.hear()["text"], "strong");
    // The one without a message is freed at once, the other one after a while.
    drop((ada, ben));
    expect_rooms(&parlour, "eve", &json!([]));
    let (_, history) = parlour.named_at_last("ada").enter("coffee");
    assert!(history.is_empty(), "{history:?}");
}

#[test]
fn a_person_may_be_in_a_number_of_rooms() {
    let parlour = Parlour::open(&["--rate", "1000"]);
    let mut ada = parlour.named("ada");
    for number in 0..16 {
        ada.enter(&format!("room-{number}"));
    }
    ada.say(json!({ "type": "join", "room": "room-3" }));
    ada.expect_error("there-already");
    ada.say(json!({ "type": "join", "room": "one-more" }));
    ada.expect_error("many-rooms");
    ada.say(json!({ "type": "leave", "room": "room-3" }));
    assert_eq!(ada.hear(), json!({ "type": "parted", "room": "room-3" }));
    ada.enter("one-more");
}

#[test]
fn the_log_has_every_message_to_a_room() {
    let (parlour, output) = Parlour::open_with_output(&["--log", "-"]);
    let mut ada = parlour.enter("ada", "tea");
    let said: Vec<Value> = ["one", "two"]
        .into_iter()
        .map(|text| {
            ada.say_in("tea", text);
            ada.hear()
        })
        .collect();
    ada.say(json!({ "type": "direct", "to": "ada", "text": "secret" }));
    assert_eq!(ada.hear()["text"], "secret");
    parlour.terminate();
    let (status, _) = parlour.wait();
    assert!(status.success());
    let logged: Vec<Value> = std::io::BufRead::lines(output)
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
        .collect();
    assert_eq!(logged, said);
}

#[test]
fn a_signal_asks_for_the_counts() {
    let mut parlour = Parlour::open(&[]);
    let mut ada = parlour.enter("ada", "tea");
    ada.say_in("tea", "one");
    assert_eq!(ada.hear()["text"], "one");
    let counts = parlour.counts();
    assert!(counts.contains("1 sessions of 1, 1 rooms, 1 messages to rooms, 1 deliveries"), "{counts}");
}
