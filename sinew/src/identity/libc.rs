//! Knowledge of the C library: how it makes the identity of a thread, and where things are in it.
//!
//! Nothing here is a number that somebody has looked up. The library exports functions for its own use, the offsets
//! in its record of a thread for debuggers (`_thread_db_*`), and the place of the area for restartable sequences.
//! The rest is found in a kernel thread whose record the library has made, and is compared with what the kernel and
//! the library say of that thread.
#![allow(unsafe_code)]

use super::base;
use crate::base::kernel;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{MaybeUninit, transmute_copy};
use std::ptr::NonNull;

/// The versions with which all tests have passed, each with what [`Libc::beginning`] is there.
const CHECKED: &[(&str, bool)] = &[("2.36", true), ("2.41", false), ("2.43", false), ("2.44", false)];

/// Why other versions are refused.
const UNCHECKED: Refusal = "this version of the GNU C library has not been checked (2.36, 2.41, 2.43 and 2.44 have)";

/// Why fibres cannot have identities here.
pub(crate) type Refusal = &'static str;

/// The number of keys in a part of the table of a thread's values for `pthread_getspecific`.
const KEYS_IN_PART: usize = 32;

/// The number of parts.
const PARTS: usize = 32;

/// The largest number of words that an identity borrows: more would mean that something else was found.
const MOST_SHARED: usize = 4;

/// A number that is neither an error's nor a signal's: the library makes up a text, and keeps it for the thread.
const UNKNOWN: c_int = 1_000_000;

/// An entry of the library's table of keys.
#[repr(C)]
struct Key {
    /// Odd while the key exists.
    sequence: usize,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// A thread's value for a key.
#[repr(C)]
struct Value {
    sequence: usize,
    value: *mut c_void,
}

/// Knowledge of the C library. Offsets are from the address of an identity, where the library's record begins.
pub(crate) struct Libc {
    allocate: unsafe extern "C" fn(*mut u8) -> *mut u8,
    initialise: unsafe extern "C" fn(*mut u8, bool) -> *mut u8,
    /// What `initialise` is told of a thread that begins. First the argument meant that variables of all namespaces
    /// are to be initialised. Later versions ask whether this is the first thread of the process. With that they
    /// would leave out the other namespaces, and would believe that a library which is being loaded has initialised
    /// its variables in all threads.
    beginning: bool,
    deallocate: unsafe extern "C" fn(*mut u8, bool),
    call_destructors: unsafe extern "C" fn(),
    begin_characters: unsafe extern "C" fn(),
    close_resolver: unsafe extern "C" fn(*mut u8, bool),
    keys: *const Key,
    /// The size of an identity, and its alignment: thread-local variables, then the record.
    pub(super) size: usize,
    pub(super) align: usize,
    /// The size of the record.
    record: usize,
    /// The thread's number.
    thread: usize,
    /// The links of the list of all threads.
    list: usize,
    /// The list of robust mutexes.
    robust: usize,
    /// The values for keys: the first part, and the table of parts.
    values: usize,
    parts: usize,
    /// The thread-local variable that has the address of the resolver's state, and the offset of that state.
    resolver: (isize, usize),
    /// The area for restartable sequences.
    sequences: isize,
    /// The thread-local variables of the C library, and their length.
    variables: (isize, usize),
    /// The words with the last text that the library made up for an error, and for a signal.
    texts: [usize; 2],
    /// The words of the allocator and of the source of random numbers: an identity borrows those of the kernel thread.
    pub(super) shared: [isize; MOST_SHARED],
    pub(super) shares: usize,
}

// SAFETY: the table of keys is the C library's and is there for ever.
unsafe impl Send for Libc {}
// SAFETY: as above.
unsafe impl Sync for Libc {}

/// Returns a symbol that the C library exports for its own use.
fn private<T>(name: &CStr) -> Result<T, Refusal> {
    const { assert!(size_of::<T>() == size_of::<usize>()) };
    // SAFETY: the strings end.
    let symbol = unsafe { libc::dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), c"GLIBC_PRIVATE".as_ptr()) };
    let symbol = NonNull::new(symbol).ok_or("this C library does not export what is needed")?;
    // SAFETY: `T` is a pointer: the assertion. That it is one of the right type is what a version was checked for.
    Ok(unsafe { transmute_copy(&symbol) })
}

/// Returns the offset of a field, as the library tells debuggers.
fn offset(name: &CStr) -> Result<usize, Refusal> {
    // Its size in bits, the number of elements, the offset.
    let field: *const [u32; 3] = private(name)?;
    // SAFETY: it is a constant of the library.
    Ok(unsafe { (*field)[2] } as usize)
}

impl Libc {
    /// Finds out what there is to know, in the calling kernel thread, which is not the first one of the process.
    ///
    /// # Errors
    /// Says what is missing.
    pub(super) fn learn() -> Result<Libc, Refusal> {
        const FSGSBASE: u64 = 1 << 1;
        // SAFETY: always safe.
        if unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE == 0 {
            return Err("the kernel does not let programs change the thread's base (FSGSBASE)");
        }
        // SAFETY: returns a string that stays.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        let checked = CHECKED.iter().find(|(checked, _)| version.to_str() == Ok(checked));
        let &(_, beginning) = checked.ok_or(UNCHECKED)?;
        let get_size: unsafe extern "C" fn(*mut usize, *mut usize) = private(c"_dl_get_tls_static_info")?;
        let (mut size, mut align) = (0, 0);
        // SAFETY: it writes the two numbers.
        unsafe { get_size(&raw mut size, &raw mut align) };
        let record: *const u32 = private(c"_thread_db_sizeof_pthread")?;
        // SAFETY: it is a constant of the library.
        let record = unsafe { *record } as usize;
        let parts = offset(c"_thread_db_pthread_specific")?;
        let resolver: *const *const u8 = private(c"__resp")?;
        let own = base::present();
        // SAFETY: all of it is this thread's: it began before, and the library has set it up.
        let (resolver, values, robust) = unsafe {
            let resolver =
                ((resolver.addr() as isize) - own.addr() as isize, (*resolver).addr().wrapping_sub(own.addr()));
            let values = own.add(parts).cast::<usize>().read().wrapping_sub(own.addr());
            (resolver, values, robust_list()?.wrapping_sub(own.addr()))
        };
        let learnt = Libc {
            allocate: private(c"_dl_allocate_tls")?,
            initialise: private(c"_dl_allocate_tls_init")?,
            beginning,
            deallocate: private(c"_dl_deallocate_tls")?,
            call_destructors: private(c"__call_tls_dtors")?,
            begin_characters: private(c"__ctype_init")?,
            close_resolver: private(c"__res_iclose")?,
            keys: private(c"__pthread_keys")?,
            size,
            align,
            record,
            thread: offset(c"_thread_db_pthread_tid")?,
            list: offset(c"_thread_db_pthread_list")?,
            robust,
            values,
            parts,
            resolver,
            sequences: sequences()?,
            variables: variables(own)?,
            texts: texts(own, record)?,
            shared: [0; MOST_SHARED],
            shares: 0,
        };
        learnt.check_own().then_some(learnt).ok_or("the C library's record of a thread is not what was expected")
    }

    /// Compares what was learnt with this kernel thread, whose record the library has made.
    fn check_own(&self) -> bool {
        let own = base::present();
        let ends =
            [self.thread, self.list + 8, self.robust + 16, self.values + 8, self.parts + 8 * PARTS, self.resolver.1];
        if !ends.iter().all(|end| *end < self.record) || self.record > self.size || !self.align.is_power_of_two() {
            return false;
        }
        // These places lie among the variables. The words of the allocator are searched for in the last one.
        let (first, length) = self.variables;
        let variables = [(self.resolver.0, 8), (self.sequences, 8), (first, length as isize)];
        let is_inside = |(start, length): &(isize, isize)| {
            -(self.before() as isize) <= *start && *start + *length <= self.record as isize
        };
        if !variables.iter().all(is_inside) {
            return false;
        }
        let word = |offset: usize| {
            // SAFETY: within the record of this thread.
            unsafe { own.add(offset).cast::<usize>().read_volatile() }
        };
        // SAFETY: as above; half a word.
        let thread = unsafe { own.add(self.thread).cast::<i32>().read_volatile() };
        let at = |offset: usize| own.addr() + offset;
        let is_shadowed = word(SHADOW_STACK) as u32 & 2 != 0;
        word(0) == at(0)
            && word(SELF) == at(0)
            && thread == kernel::thread_id()
            && (word(self.list) != 0 && word(self.list + 8) != 0)
            && (word(self.robust) == at(self.robust) && word(self.robust - 8) == at(self.robust))
            && self.checks_keys()
            && !is_shadowed
    }

    /// Says whether the values for two new keys, and their destructors, are where they should be.
    fn checks_keys(&self) -> bool {
        unsafe extern "C" fn nothing(_: *mut c_void) {}
        let is_found = |number: usize| {
            let (mut key, value) = (0, std::ptr::without_provenance_mut::<c_void>(number));
            // SAFETY: the key is deleted before anybody else knows it.
            unsafe {
                if libc::pthread_key_create(&raw mut key, Some(nothing)) != 0 {
                    return false;
                }
                let place = base::present().add(self.values).cast::<Value>().add(key as usize);
                let is_found = (key as usize) < KEYS_IN_PART
                    && libc::pthread_setspecific(key, value) == 0
                    && (*place).value == value
                    && (*self.keys.add(key as usize))
                        .destructor
                        .is_some_and(|known| std::ptr::fn_addr_eq(known, nothing as unsafe extern "C" fn(*mut c_void)))
                    && (*self.keys.add(key as usize)).sequence == (*place).sequence
                    && libc::pthread_setspecific(key, std::ptr::null()) == 0;
                libc::pthread_key_delete(key) == 0 && is_found
            }
        };
        is_found(0x1001) && is_found(0x2002)
    }

    /// Lets the library set up new thread-local variables at `pointer`, for an identity that has never been used, or
    /// that has been [emptied](Libc::empty). Returns `false` if there is no memory.
    ///
    /// # Safety
    /// The memory is an identity's, and ours.
    pub(super) unsafe fn allocate(&self, pointer: *mut u8) -> bool {
        // SAFETY: by the contract.
        unsafe { !(self.allocate)(pointer).is_null() }
    }

    /// Gives back what the library has allocated for an identity.
    ///
    /// # Safety
    /// The identity is ours and nobody runs with it.
    pub(super) unsafe fn empty(&self, pointer: *mut u8) {
        // SAFETY: by the contract. The memory itself stays ours.
        unsafe { (self.deallocate)(pointer, false) };
    }

    /// Says whether the library has allocated memory for variables of libraries that were loaded later.
    ///
    /// # Safety
    /// As [`empty`](Libc::empty).
    pub(super) unsafe fn has_grown(&self, pointer: *mut u8) -> bool {
        // A table of pairs: the variables' address, and what is to be freed. Its length is in front of it.
        // SAFETY: by the contract; the library's layout, which was checked.
        unsafe {
            let table = *pointer.cast::<*const [usize; 2]>().add(1);
            let length = (*table.sub(1))[0];
            (1..=length).any(|number| (*table.add(number))[1] != 0)
        }
    }

    /// Gives an identity its number as a thread.
    ///
    /// # Safety
    /// As [`empty`](Libc::empty).
    pub(super) unsafe fn set_number(&self, pointer: *mut u8, number: u32) {
        // SAFETY: by the contract.
        unsafe { pointer.add(self.thread).cast::<u32>().write(number) };
    }

    /// Makes the record and the variables those of a thread that begins. It keeps its number.
    ///
    /// # Safety
    /// As [`empty`](Libc::empty), and the library has [allocated](Libc::allocate) its variables.
    pub(super) unsafe fn renew(&self, pointer: *mut u8) {
        let own = base::present();
        let address = pointer.addr();
        // SAFETY: by the contract, and `check_own` has compared the offsets with the size.
        unsafe {
            let word = |offset: usize| pointer.add(offset).cast::<usize>();
            let (table, number) = (word(TABLE).read(), pointer.add(self.thread).cast::<u32>().read());
            pointer.write_bytes(0, self.record);
            word(0).write(address);
            word(TABLE).write(table);
            word(SELF).write(address);
            // Whether there are several threads; guards of the stack and of pointers: the same in all threads.
            std::ptr::copy_nonoverlapping(own.add(SAME.start), pointer.add(SAME.start), SAME.len());
            self.set_number(pointer, number);
            // A list with nothing else in it.
            word(self.list).write(address + self.list);
            word(self.list + 8).write(address + self.list);
            word(self.robust).write(address + self.robust);
            word(self.robust - 8).write(address + self.robust);
            word(self.parts).write(address + self.values);
            (self.initialise)(pointer, self.beginning);
            pointer.offset(self.resolver.0).cast::<usize>().write(address + self.resolver.1);
            // The CPU's number: not known, so the library asks the kernel.
            pointer.offset(self.sequences).cast::<[i32; 2]>().write([0, -2]);
        }
    }

    /// Prepares the thread-local variables of the C library that need code to run. With the new identity.
    pub(super) fn begin(&self) {
        // SAFETY: the library calls it at the beginning of each thread.
        unsafe { (self.begin_characters)() };
    }

    /// Calls the destructors of thread-local variables and of values for keys. With the identity that ends.
    pub(super) fn end(&self) {
        for _ in 0..ROUNDS {
            // SAFETY: the library calls it at the end of each thread.
            unsafe { (self.call_destructors)() };
            // Before the values: an allocator may have one, and would begin anew if it were called after its destructor.
            self.free_rest();
            if !self.has_values() || !self.drop_values() {
                break;
            }
        }
        if self.has_values() {
            self.free_parts();
        }
    }

    /// Says whether there may be values for keys. Most fibres have none: this looks at all places without a branch.
    fn has_values(&self) -> bool {
        let own = base::present();
        // SAFETY: both are in the record.
        let (values, parts) = unsafe {
            (&*own.add(self.values).cast::<[Value; KEYS_IN_PART]>(), &*own.add(self.parts).cast::<[usize; PARTS]>())
        };
        let values = values.iter().fold(0, |any, value| any | value.value.addr());
        parts[1..].iter().fold(values, |any, part| any | part) != 0
    }

    /// Drops the values for keys. Returns whether there was one.
    fn drop_values(&self) -> bool {
        let mut was_any = false;
        for (part, values) in self.parts_in_use() {
            for place in 0..KEYS_IN_PART {
                // SAFETY: the part has this number of values; they are this thread's.
                let value = unsafe { values.add(place).read() };
                if value.value.is_null() {
                    continue;
                }
                let number = part * KEYS_IN_PART + place;
                // SAFETY: the library's table has an entry for each possible key.
                let key = unsafe { self.keys.add(number).read() };
                // SAFETY: as above.
                unsafe { (&raw mut (*values.add(place)).value).write(std::ptr::null_mut()) };
                // A value of a key that was deleted means nothing.
                if let Some(destructor) = key.destructor.filter(|_| key.sequence == value.sequence) {
                    was_any = true;
                    // SAFETY: the destructor of this key's values, at the end of their thread.
                    unsafe { destructor(value.value) };
                }
            }
        }
        was_any
    }

    /// Returns the parts of the present identity's values that exist, with their numbers.
    fn parts_in_use(&self) -> impl Iterator<Item = (usize, *mut Value)> {
        // SAFETY: the table is in the record.
        let parts = unsafe { base::present().add(self.parts).cast::<*mut Value>() };
        // SAFETY: as above.
        (0..PARTS).map(move |part| (part, unsafe { parts.add(part).read() })).filter(|(_, values)| !values.is_null())
    }

    /// Frees the parts that the library has allocated.
    fn free_parts(&self) {
        for (part, values) in self.parts_in_use() {
            if part > 0 {
                // SAFETY: the library has allocated it by `calloc`, and nobody uses it any more.
                unsafe {
                    base::present().add(self.parts).cast::<*mut Value>().add(part).write(std::ptr::null_mut());
                    libc::free(values.cast());
                }
            }
        }
    }

    /// Frees what the library would free at the end of a thread, by a function that it does not export.
    fn free_rest(&self) {
        const IS_OPEN: usize = 1;
        let own = base::present();
        // SAFETY: the resolver's state, whose layout is public, and the words of texts are in the record. A text was
        // allocated by the library, which allocates a new one when the word is null.
        unsafe {
            // A message that was returned is freed by the next call.
            while !libc::dlerror().is_null() {}
            let resolver = own.add(self.resolver.1);
            if resolver.add(RESOLVER_OPTIONS).cast::<usize>().read() & IS_OPEN != 0 {
                (self.close_resolver)(resolver, true);
            }
            for text in self.texts {
                let text = own.add(text).cast::<*mut c_void>().replace(std::ptr::null_mut());
                if !text.is_null() {
                    libc::free(text);
                }
            }
        }
    }

    /// Lets the library set up, for the present thread, what it keeps from the first use on and identities borrow: the
    /// allocator's cache, and the state of random numbers.
    pub(super) fn prepare_lender() {
        allocate();
        randomise();
    }

    /// Returns the words of the C library's own thread-local variables in an identity, with their offsets.
    ///
    /// # Safety
    /// The identity exists, and nobody else runs with it.
    pub(super) unsafe fn own_variables(&self, pointer: *const u8) -> Vec<(isize, usize)> {
        let (start, length) = self.variables;
        // SAFETY: by the contract; the variables are words, or parts of them.
        unsafe { words(pointer, start, length) }
    }

    /// As [`own_variables`](Libc::own_variables), of the record.
    ///
    /// # Safety
    /// As above.
    pub(super) unsafe fn own_record(&self, pointer: *const u8) -> Vec<(isize, usize)> {
        // SAFETY: by the contract.
        unsafe { words(pointer, 0, self.record) }
    }

    /// Returns the offset of the identity within its memory.
    pub(super) fn before(&self) -> usize {
        self.size - self.record
    }
}

/// Returns the whole words of a part of an identity, with their offsets.
///
/// # Safety
/// The part is within the identity, and nobody else runs with it.
unsafe fn words(pointer: *const u8, start: isize, length: usize) -> Vec<(isize, usize)> {
    let offsets = (0..length / size_of::<usize>()).map(|number| start + (number * size_of::<usize>()) as isize);
    // SAFETY: by the contract.
    offsets.map(|offset| (offset, unsafe { pointer.offset(offset).cast::<usize>().read_volatile() })).collect()
}

/// Allocates and frees by the C library, or the allocator that replaces its own.
pub(super) fn allocate() {
    for size in [24, 24, 200, 5000] {
        // SAFETY: what is allocated is freed.
        unsafe { libc::free(std::hint::black_box(libc::malloc(size))) };
    }
}

/// Asks for a random number.
pub(super) fn randomise() {
    let mut random = [0u8; 8];
    // SAFETY: it writes the bytes, or none.
    unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), libc::GRND_NONBLOCK) };
}

/// The fields of the record that the ABI of x86-64 has: the table of variables, the record itself.
const TABLE: usize = 8;
const SELF: usize = 16;

/// ... what all threads of the process have in common;
const SAME: std::ops::Range<usize> = 0x18..0x38;

/// ... and what the CPU checks; bit 1: a shadow stack.
const SHADOW_STACK: usize = 0x48;

/// The resolver's options in its state, after two numbers.
const RESOLVER_OPTIONS: usize = 8;

/// The number of times that destructors are called which leave new values. As POSIX has it.
const ROUNDS: usize = 4;

/// Returns the address of this thread's list of robust mutexes, which the kernel knows.
fn robust_list() -> Result<usize, Refusal> {
    let (mut head, mut length) = (MaybeUninit::<usize>::uninit(), 0usize);
    // SAFETY: the kernel writes the two words.
    match unsafe { libc::syscall(libc::SYS_get_robust_list, 0, head.as_mut_ptr(), &raw mut length) } {
        // SAFETY: the call has succeeded.
        0 => Ok(unsafe { head.assume_init() }),
        _ => Err("the kernel does not tell the list of robust mutexes"),
    }
}

/// Returns where the record has the texts that the library made up last: in this kernel thread, which frees them.
fn texts(own: *mut u8, record: usize) -> Result<[usize; 2], Refusal> {
    unsafe extern "C" {
        fn strsignal(signal: c_int) -> *mut c_char;
    }
    // SAFETY: the texts stay until the next call.
    let texts = unsafe { [libc::strerror(UNKNOWN), strsignal(UNKNOWN)] };
    let find = |text: *mut c_char| {
        // SAFETY: within the record of this thread.
        let word = |offset: &usize| unsafe { own.add(*offset).cast::<*mut c_char>().read_volatile() };
        (0..record).step_by(size_of::<usize>()).find(|offset| word(offset) == text && !text.is_null())
    };
    let found = texts.map(find);
    let [Some(error), Some(signal)] = found else {
        return Err("the C library keeps texts elsewhere than was expected");
    };
    Ok([error, signal])
}

/// Returns the offset of the area for restartable sequences.
fn sequences() -> Result<isize, Refusal> {
    // SAFETY: the string ends.
    let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    // SAFETY: the library exports it as a constant of this type.
    unsafe { place.cast::<isize>().as_ref() }.copied().ok_or("this C library has no area for restartable sequences")
}

/// Returns where the C library's own thread-local variables are.
fn variables(own: *mut u8) -> Result<(isize, usize), Refusal> {
    struct Search {
        /// An address in the C library.
        inside: usize,
        found: Option<(usize, usize)>,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the library passes what it was given.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        // SAFETY: the headers of a loaded object.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let has_it = |header: &libc::Elf64_Phdr| {
            let start = (info.dlpi_addr + header.p_vaddr) as usize;
            header.p_type == libc::PT_LOAD && (start..start + header.p_memsz as usize).contains(&search.inside)
        };
        if headers.iter().any(has_it)
            && let Some(variables) = headers.iter().find(|header| header.p_type == libc::PT_TLS)
        {
            search.found = Some((info.dlpi_tls_data.addr(), variables.p_memsz as usize));
        }
        0
    }
    let inside: *const c_char = private(c"__call_tls_dtors")?;
    let mut search = Search { inside: inside.addr(), found: None };
    // SAFETY: `look` is given what it expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    let (start, length) =
        search.found.filter(|(start, _)| *start != 0).ok_or("the C library is not found in memory")?;
    // Whole words.
    let end = start + length;
    let start = start.next_multiple_of(size_of::<usize>());
    Ok((start as isize - own.addr() as isize, end.saturating_sub(start)))
}

#[cfg(test)]
mod tests {
    use super::{CHECKED, UNCHECKED};

    #[test]
    fn a_refusal_names_the_versions_that_were_checked() {
        assert!(CHECKED.iter().all(|(version, _)| UNCHECKED.contains(version)));
        assert_eq!(UNCHECKED.matches("2.").count(), CHECKED.len());
    }
}
