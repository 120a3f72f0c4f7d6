//! The program has a note for each probe that a tracer can hook into.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use std::collections::HashMap;

/// A section of a program: its address, and its contents.
struct Section<'a> {
    name: String,
    address: u64,
    bytes: &'a [u8],
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut word = [0; 8];
    word[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(word)
}

fn text(bytes: &[u8], at: usize) -> String {
    let end = bytes[at..].iter().position(|byte| *byte == 0).expect("a NUL");
    String::from_utf8(bytes[at..at + end].to_vec()).expect("text")
}

/// Returns the sections of an ELF file of 64 bits.
fn sections(file: &[u8]) -> Vec<Section<'_>> {
    assert!(file.starts_with(b"\x7fELF\x02\x01"));
    let (table, size) = (number(file, 0x28, 8) as usize, number(file, 0x3a, 2) as usize);
    let (count, names) = (number(file, 0x3c, 2) as usize, number(file, 0x3e, 2) as usize);
    let bytes = |header: usize| {
        // A section of zeros takes no space in the file.
        let length = if number(file, header + 4, 4) == 8 { 0 } else { number(file, header + 0x20, 8) as usize };
        let start = number(file, header + 0x18, 8) as usize;
        if length == 0 { &[][..] } else { &file[start..start + length] }
    };
    let names = bytes(table + names * size);
    let section = |number_of: usize| {
        let header = table + number_of * size;
        let name = text(names, number(file, header, 4) as usize);
        Section { name, address: number(file, header + 0x10, 8), bytes: bytes(header) }
    };
    (0..count).map(section).collect()
}

/// A note: the name of the probe, where it is, and its arguments.
struct Note {
    probe: String,
    location: u64,
    arguments: String,
}

fn notes(bytes: &[u8]) -> Vec<Note> {
    let (mut at, mut notes) = (0, Vec::new());
    while at < bytes.len() {
        let (name, length) = (number(bytes, at, 4) as usize, number(bytes, at + 4, 4) as usize);
        assert_eq!((number(bytes, at + 8, 4), text(bytes, at + 12)), (3, "stapsdt".to_owned()));
        let start = at + 12 + name.next_multiple_of(4);
        let described = &bytes[start..start + length];
        let provider = text(described, 24);
        let probe = text(described, 24 + provider.len() + 1);
        let arguments = text(described, 24 + provider.len() + 1 + probe.len() + 1);
        if provider == "sinew" {
            notes.push(Note { probe, location: number(described, 0, 8), arguments });
        }
        at = start + length.next_multiple_of(4);
    }
    notes
}

#[test]
fn every_probe_has_a_note_that_leads_to_a_nop() {
    // The functions with probes are part of the program.
    sinew::run(|| {
        let parked = sinew::spawn(sinew::park);
        sinew::yield_now();
        parked.fibre().unpark();
        parked.join().expect("no panic");
    });
    let file = std::fs::read("/proc/self/exe").expect("the program");
    let sections = sections(&file);
    let section = |name: &str| sections.iter().find(|section| section.name == name);
    let notes = notes(section(".note.stapsdt").expect("notes").bytes);
    let code = section(".text").expect("code");
    let nop: &[u8] = if cfg!(target_arch = "x86_64") { &[0x90] } else { &[0x1f, 0x20, 0x03, 0xd5] };
    let mut arguments = HashMap::new();
    // A linker leaves notes of code that it has taken out: they lead nowhere.
    for note in notes.iter().filter(|note| note.location >= code.address) {
        let at = (note.location - code.address) as usize;
        assert!(code.bytes[at..].starts_with(nop), "{} at {:#x} is no nop", note.probe, note.location);
        let parts: Vec<&str> = note.arguments.split(' ').collect();
        assert!(parts.iter().all(|part| part.starts_with("8@")), "{}", note.arguments);
        arguments.insert(note.probe.as_str(), parts.len());
    }
    let expected = [("spawn", 1), ("park", 2), ("ready", 1), ("steal", 1), ("stall", 2)];
    assert_eq!(arguments, HashMap::from(expected));
}
