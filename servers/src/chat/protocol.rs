//! The messages between clients and the server, and what is allowed in them.

use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};
use tungstenite::Utf8Bytes;

/// The longest name of a person, in characters.
pub const LONGEST_NAME: usize = 24;

/// The longest name of a room, in characters.
pub const LONGEST_ROOM: usize = 32;

/// The longest text, in characters.
pub const LONGEST_TEXT: usize = 2000;

/// The largest message of a client, in bytes. A text of [`LONGEST_TEXT`] fits, even if each character of it is a pair of
/// escapes.
pub const LARGEST: usize = 12 * LONGEST_TEXT + 1024;

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// To have a name.
    Name(String),
    /// To be in a room.
    Join(String),
    /// To be in a room no more.
    Leave(String),
    /// To say something in a room.
    Say { room: String, text: String },
    /// To say something to one person.
    Direct { to: String, text: String },
    /// To know the rooms.
    Rooms,
}

/// A request as it is written. It has no nested values, so a parser needs no deep stack for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "type")]
    kind: Kind,
    name: Option<String>,
    room: Option<String>,
    to: Option<String>,
    text: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Name,
    Join,
    Leave,
    Say,
    Direct,
    Rooms,
}

/// Why a client does not get what it asks for: a word for programs, and a sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: &'static str,
    pub text: &'static str,
}

macro_rules! refusals {
    ($($name:ident $code:literal $text:literal)*) => {
        impl Refusal {
            $(pub const $name: Refusal = Refusal { code: $code, text: $text };)*
        }
    };
}

refusals! {
    NOT_A_REQUEST "not-a-request" "this is no request that the server knows"
    BAD_NAME "bad-name" "a name has 1 to 24 letters, digits, and any of . _ -"
    BAD_ROOM "bad-room" "a room's name has 1 to 32 letters, digits, and any of . _ -"
    BAD_TEXT "bad-text" "a text has 1 to 2000 characters, and no control characters but line breaks and tabs"
    NAMELESS "nameless" "take a name first"
    NAMED "named" "you have a name already"
    NAME_TAKEN "name-taken" "somebody here has this name: choose another one"
    NOBODY "nobody" "nobody here has this name"
    NOT_THERE "not-there" "you are not in this room"
    THERE_ALREADY "there-already" "you are in this room already"
    MANY_ROOMS "many-rooms" "you are in as many rooms as one person may be in: leave one"
    NO_ROOM "no-room" "there are as many rooms as this server has: join one of them"
    TOO_FAST "too-fast" "you write too fast: this message was dropped"
    CLOSING "closing" "the server ends: this message was dropped"
}

/// Reads a request.
///
/// # Errors
/// It is none, or something in it is not allowed.
pub fn read(text: &str) -> Result<Request, Refusal> {
    let written: Written = serde_json::from_str(text).map_err(|_| Refusal::NOT_A_REQUEST)?;
    let Written { kind, name, room, to, text } = written;
    let room_of = |room: Option<String>| room.filter(|room| is_name(room, LONGEST_ROOM)).ok_or(Refusal::BAD_ROOM);
    let text_of = |text: Option<String>| text.filter(|text| is_text(text)).ok_or(Refusal::BAD_TEXT);
    let name_of = |name: Option<String>| name.filter(|name| is_name(name, LONGEST_NAME)).ok_or(Refusal::BAD_NAME);
    match (kind, name, room, to, text) {
        (Kind::Name, name, None, None, None) => Ok(Request::Name(name_of(name)?)),
        (Kind::Join, None, room, None, None) => Ok(Request::Join(room_of(room)?)),
        (Kind::Leave, None, room, None, None) => Ok(Request::Leave(room_of(room)?)),
        (Kind::Say, None, room, None, text) => Ok(Request::Say { room: room_of(room)?, text: text_of(text)? }),
        (Kind::Direct, None, None, to, text) => Ok(Request::Direct { to: name_of(to)?, text: text_of(text)? }),
        (Kind::Rooms, None, None, None, None) => Ok(Request::Rooms),
        _ => Err(Refusal::NOT_A_REQUEST),
    }
}

/// Letters and digits of any script. Marks that change the direction of writing, and spaces, are neither.
fn is_name(name: &str, longest: usize) -> bool {
    let is_allowed = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-');
    (1..=longest).contains(&name.chars().count()) && name.chars().all(is_allowed)
}

fn is_text(text: &str) -> bool {
    let is_allowed = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    text.chars().count() <= LONGEST_TEXT && text.chars().all(is_allowed) && !text.trim().is_empty()
}

/// Returns the form of a name by which names are compared: `Ada` and `ada` are the same person.
pub fn key(name: &str) -> String {
    name.to_lowercase()
}

/// What the server says.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Reply<'a> {
    /// The client has this name now.
    Welcome { name: &'a str },
    /// The client is in a room now. The last messages of the room follow, `history` of them.
    Entered { room: &'a str, since: u64, count: usize, members: Vec<&'a str>, history: usize },
    /// The client is in a room no more.
    Parted { room: &'a str },
    /// Another person has come to a room.
    Joined { room: &'a str, name: &'a str, count: usize },
    /// Another person has left a room.
    Left { room: &'a str, name: &'a str, count: usize },
    /// The number of members of a large room, where nobody is told of each.
    Count { room: &'a str, count: usize },
    /// Somebody has said something in a room. The numbers of a room have no gaps.
    Said { room: &'a str, number: u64, from: &'a str, text: &'a str, at: u64 },
    /// Somebody has said something to one person. Both get it.
    Direct { from: &'a str, to: &'a str, text: &'a str, at: u64 },
    /// The rooms, those with the most members first.
    Rooms { rooms: Vec<Listed<'a>> },
    /// The client does not get what it has asked for.
    Error {
        code: &'a str,
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        about: Option<&'a str>,
    },
    /// The server ends. A close frame follows.
    Goodbye { text: &'a str },
}

/// A room in a list.
#[derive(Serialize)]
pub struct Listed<'a> {
    pub room: &'a str,
    pub count: usize,
}

impl Reply<'_> {
    /// Returns the text of the message. Its clones share the bytes.
    pub fn text(&self) -> Utf8Bytes {
        serde_json::to_string(self).expect("text and numbers can be written").into()
    }

    /// Returns the text of a refusal. `about` is the room or the person that the client has named.
    pub fn refusal(refusal: Refusal, about: Option<&str>) -> Utf8Bytes {
        Reply::Error { code: refusal.code, text: refusal.text, about }.text()
    }
}

/// Returns the milliseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        assert_eq!(read(r#"{"type":"name","name":"Ada"}"#), Ok(Request::Name("Ada".into())));
        assert_eq!(read(r#"{"room":"été-2","type":"join"}"#), Ok(Request::Join("été-2".into())));
        let said = Request::Say { room: "a".into(), text: "<b>\n\tyes".into() };
        assert_eq!(read(r#"{"type":"say","room":"a","text":"<b>\n\tyes"}"#), Ok(said));
        assert_eq!(read(r#" {"type":"rooms"} "#), Ok(Request::Rooms));
    }

    #[test]
    fn what_is_not_allowed_is_refused() {
        let deep = "[".repeat(20_000);
        let nested = format!(r#"{{"type":"say","room":{deep}"#);
        for text in
            ["", "{", "[]", "null", "1e999", r#"{"type":"kill"}"#, r#"{"type":"join","room":1}"#, &deep, &nested]
        {
            assert_eq!(read(text), Err(Refusal::NOT_A_REQUEST), "{text:.40}");
        }
        let surplus = [r#"{"type":"rooms","room":"a"}"#, r#"{"type":"rooms","more":1}"#, r#"{"type":"rooms"}{}"#];
        surplus.into_iter().for_each(|text| assert_eq!(read(text), Err(Refusal::NOT_A_REQUEST), "{text}"));
        let twice = r#"{"type":"join","room":"a","room":"b"}"#;
        assert_eq!(read(twice), Err(Refusal::NOT_A_REQUEST));
        for name in ["", "a b", "<b>", "a\u{202e}b", "a\u{200b}", "a\u{0}", &"x".repeat(25)] {
            let text = serde_json::json!({ "type": "name", "name": name }).to_string();
            assert_eq!(read(&text), Err(Refusal::BAD_NAME), "{name:?}");
        }
        assert_eq!(read(r#"{"type":"join"}"#), Err(Refusal::BAD_ROOM));
        for said in ["", " \n", "\u{7}", "a\u{0}", "a\u{9b}", &"é".repeat(2001)] {
            let text = serde_json::json!({ "type": "say", "room": "a", "text": said }).to_string();
            assert_eq!(read(&text), Err(Refusal::BAD_TEXT), "{said:.10?}");
        }
        assert_eq!(read(r#"{"type":"say","room":"a","text":"\ud800"}"#), Err(Refusal::NOT_A_REQUEST));
    }

    #[test]
    fn the_longest_text_fits_into_a_message() {
        let text = "\u{1f600}".repeat(LONGEST_TEXT);
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let message = format!(r#"{{"type":"direct","to":"{}","text":"{escaped}"}}"#, "x".repeat(LONGEST_NAME));
        assert!(message.len() <= LARGEST);
        assert!(matches!(read(&message), Ok(Request::Direct { text: read, .. }) if read == text));
    }

    #[test]
    fn replies_are_small_objects_with_a_type() {
        let said = Reply::Said { room: "a", number: 1, from: "ada", text: "</script>\"", at: 5 }.text();
        assert_eq!(said, r#"{"type":"said","room":"a","number":1,"from":"ada","text":"</script>\"","at":5}"#);
        let error = r#"{"type":"error","code":"nobody","text":"nobody here has this name","about":"ben"}"#;
        assert_eq!(Reply::refusal(Refusal::NOBODY, Some("ben")), error);
    }
}
