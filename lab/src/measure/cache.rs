//! The sizes of the first CPU's caches.

use std::fs;

/// The size that is assumed if the kernel does not say it.
const GUESS: usize = 1 << 20;

/// Returns the bytes of the cache of level 2.
pub fn level_2_bytes() -> usize {
    let path = "/sys/devices/system/cpu/cpu0/cache/index2/size";
    fs::read_to_string(path).ok().and_then(|text| bytes(text.trim())).unwrap_or(GUESS)
}

fn bytes(text: &str) -> Option<usize> {
    match text.strip_suffix('K') {
        Some(number) => number.parse::<usize>().ok().map(|number| number * 1024),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn the_kernel_says_kibibytes() {
        assert_eq!(bytes("1024K"), Some(1 << 20));
        assert_eq!(bytes("512"), Some(512));
        assert_eq!(bytes("unknown"), None);
    }
}
