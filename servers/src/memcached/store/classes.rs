//! memcached's classes of sizes.
//!
//! Nothing here is kept by class: all blocks are equal. But memcached tells what it has by classes
//! of sizes, and those who read its numbers know them. So items are counted by them.

/// memcached counts this for an item, beside key, flags and value.
const HEADER: usize = 48;

/// And this for its unique number.
const UNIQUE: usize = 8;

/// The most classes that there can be; class 0 is none.
pub const MOST_CLASSES: usize = 64;

/// Sizes up to this are looked up.
const LOOKED_UP: usize = 2048;

/// memcached's page, of which chunks are parts.
pub const SLAB_PAGE: usize = 1 << 20;

/// What decides about the classes.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    /// Space for key, value and flags in the smallest class: `-n`.
    pub smallest: usize,
    /// Each class is larger than the one before by this factor: `-f`.
    pub factor: f64,
    /// The largest class: `-o slab_chunk_max`, in bytes.
    pub largest: usize,
    /// Whether items have unique numbers.
    pub has_unique: bool,
}

impl Default for Sizing {
    fn default() -> Sizing {
        Sizing { smallest: 48, factor: 1.25, largest: SLAB_PAGE / 2, has_unique: true }
    }
}

/// Sizes of classes.
#[derive(Debug)]
pub struct Classes {
    /// By class; that of class 0 is 0.
    sizes: Vec<usize>,
    /// The class of each multiple of 8 bytes.
    table: Box<[u8]>,
    header: usize,
}

impl Classes {
    /// Classes as memcached would have them.
    pub fn new(sizing: Sizing) -> Classes {
        let header = HEADER + if sizing.has_unique { UNIQUE } else { 0 };
        let (mut sizes, mut size) = (vec![0], HEADER + sizing.smallest);
        while sizes.len() < MOST_CLASSES - 1 && (size as f64) < sizing.largest as f64 / sizing.factor {
            size = size.next_multiple_of(8);
            sizes.push(size);
            size = (size as f64 * sizing.factor) as usize;
        }
        sizes.push(sizing.largest);
        let search = |bytes: usize| search(&sizes, bytes) as u8;
        let table = (0..=LOOKED_UP / 8).map(|eighth| search(eighth * 8)).collect();
        Classes { sizes, table, header }
    }

    /// The size of an item as memcached counts it, which is what the limit for items is about.
    #[inline]
    pub fn size(&self, key: usize, flags: u32, value: usize) -> usize {
        let flags = if flags == 0 { 0 } else { 4 };
        self.header + key + 1 + flags + value + 2
    }

    /// The class of an item of this size.
    #[inline]
    pub fn of(&self, bytes: usize) -> usize {
        if bytes <= LOOKED_UP { self.table[bytes.div_ceil(8)].into() } else { search(&self.sizes, bytes) }
    }

    /// The size of a class.
    pub fn chunk(&self, class: usize) -> usize {
        self.sizes[class]
    }

    /// The number of classes, with class 0.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }
}

fn search(sizes: &[usize], bytes: usize) -> usize {
    sizes.partition_point(|size| *size < bytes.max(1)).min(sizes.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_memcached() {
        let classes = Classes::new(Sizing::default());
        assert_eq!((classes.chunk(1), classes.chunk(2), classes.chunk(3)), (96, 120, 152));
        assert_eq!((classes.count(), classes.chunk(39)), (40, 524_288));
        assert_eq!(classes.of(classes.size(1, 0, 1)), 1);
        assert_eq!(classes.of(classes.size(4, 0, 66_560)), 31);
        assert_eq!(classes.of(96), 1);
        assert_eq!(classes.of(97), 2);
        assert_eq!((classes.of(524_288), classes.of(1 << 20)), (39, 39));
        assert_eq!((classes.size(3, 0, 10), classes.size(3, 1, 10)), (72, 76));
    }

    #[test]
    fn the_table_agrees_with_the_sizes() {
        let classes = Classes::new(Sizing { largest: 16_384, ..Sizing::default() });
        for bytes in 1..5000 {
            let class = classes.of(bytes);
            assert!(bytes <= classes.chunk(class) && bytes > classes.chunk(class - 1), "{bytes}");
        }
    }
}
