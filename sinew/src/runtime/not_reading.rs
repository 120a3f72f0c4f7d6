//! Takes the place of `reading.rs` without the feature `inspect`.

use crate::processor::stall::CopiedStack;

/// Returns the module and the offset of the instruction: what is known without the tables of the program.
pub(super) fn walk(stack: &CopiedStack<'_>) -> Vec<String> {
    let address = stack.registers.instruction;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |digits| usize::from_str_radix(digits, 16).ok();
        let path = rest.split_ascii_whitespace().nth(4)?.to_owned();
        Some((number(start)?, number(end)?, path))
    };
    let mappings: Vec<_> = maps.lines().filter_map(mapping).collect();
    let Some((_, _, path)) = mappings.iter().find(|(start, end, _)| (*start..*end).contains(&address)) else {
        return Vec::new();
    };
    let base = mappings.iter().find(|(_, _, other)| other == path).map_or(0, |(start, ..)| *start);
    vec![format!("{path}+{:#x}", address - base)]
}

/// Says that there is no dump.
pub(super) fn dump() -> String {
    "sinew: no dump: the program was built without the feature `inspect` of the crate `sinew`\n".to_owned()
}
