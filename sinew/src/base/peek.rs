//! Reads of this process's memory that cannot fault: the kernel copies, and says how far it came.
//!
//! They are for memory that another thread may write or give back meanwhile, and for signal handlers. The
//! caller finds out afterwards whether what it has read means anything.
#![allow(unsafe_code)]

/// Copies the bytes at `address` to `bytes`. Returns how many there were to copy: fewer if some of that
/// memory is not there, 0 if the kernel refuses the call.
pub(crate) fn copy(address: usize, bytes: &mut [u8]) -> usize {
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let from = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: bytes.len() };
    // SAFETY: the kernel writes to `bytes` alone. It checks the other address.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// Returns the word at `address`.
pub(crate) fn word(address: usize) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    (copy(address, &mut bytes) == bytes.len()).then(|| usize::from_ne_bytes(bytes))
}

/// Returns the half of a word at `address`.
pub(crate) fn half(address: usize) -> Option<u32> {
    let mut bytes = [0; size_of::<u32>()];
    (copy(address, &mut bytes) == bytes.len()).then(|| u32::from_ne_bytes(bytes))
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_does_not_fault() {
        let here = 7usize;
        assert_eq!(word((&raw const here).addr()), Some(7));
        assert_eq!(word(0), None);
        assert_eq!(copy(usize::MAX - 100, &mut [0; 8]), 0);
    }
}
