//! Requests and answers of the binary protocol.

use crate::running::Talk;

/// Returns a binary request.
pub fn frame(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], unique: u64) -> Vec<u8> {
    let mut header = vec![0x80, opcode];
    header.extend_from_slice(&(key.len() as u16).to_be_bytes());
    header.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    header.extend_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    header.extend_from_slice(b"opaq");
    header.extend_from_slice(&unique.to_be_bytes());
    [&header, extras, key, value].concat()
}

/// Returns a binary request that does nothing. Its answer shows that all earlier requests are
/// answered.
pub fn done() -> Vec<u8> {
    let mut done = frame(0x0a, b"", b"", b"", 0);
    done[12..16].copy_from_slice(b"done");
    done
}

/// Returns all answers to the requests that have been sent.
pub fn binary_answer(talk: &mut Talk) -> Vec<u8> {
    talk.say(&done());
    let mut heard = Vec::new();
    loop {
        let header = talk.hear(24);
        if header.len() < 24 {
            heard.extend_from_slice(b"<closed>");
            return heard;
        }
        if &header[12..16] == b"done" {
            return heard;
        }
        let length = u32::from_be_bytes(header[8..12].try_into().expect("four bytes"));
        heard.extend_from_slice(&header);
        heard.extend_from_slice(&talk.hear(length as usize));
    }
}
