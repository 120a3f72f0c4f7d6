//! memcached's classes of sizes.
//!
//! Items are not kept by class here: all blocks have one size. But memcached reports what it has by
//! classes of sizes, and operators know those numbers. So items are counted by class.

/// The bytes that memcached counts for an item, besides key, flags and value.
const HEADER: usize = 48;

/// The bytes that memcached counts for a unique number.
const UNIQUE: usize = 8;

/// The largest number of classes; class 0 is no class.
pub const MOST_CLASSES: usize = 64;

/// The class of a size up to this one is found in a table.
const LOOKED_UP: usize = 2048;

/// The size of memcached's page. Its chunks are parts of a page.
pub const SLAB_PAGE: usize = 1 << 20;

/// The options that determine the classes.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    /// The space for key, value and flags in the smallest class: `-n`.
    pub smallest: usize,
    /// The factor by which each class is larger than the one before: `-f`.
    pub factor: f64,
    /// The size of the largest class in bytes: `-o slab_chunk_max`.
    pub largest: usize,
    /// Whether items have unique numbers.
    pub has_unique: bool,
}

impl Default for Sizing {
    fn default() -> Sizing {
        Sizing { smallest: 48, factor: 1.25, largest: SLAB_PAGE / 2, has_unique: true }
    }
}

/// The sizes of all classes.
#[derive(Debug)]
pub struct Classes {
    /// The sizes by class; that of class 0 is 0.
    sizes: Vec<usize>,
    /// The class of each multiple of 8 bytes.
    table: Box<[u8]>,
    header: usize,
}

impl Classes {
    /// Returns the classes that memcached would have.
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

    /// Returns the size of an item as memcached counts it. The limit for items is about this size.
    #[inline]
    pub fn size(&self, key: usize, flags: u32, value: usize) -> usize {
        let flags = if flags == 0 { 0 } else { 4 };
        self.header + key + 1 + flags + value + 2
    }

    /// Returns the class of an item of this size.
    #[inline]
    pub fn of(&self, bytes: usize) -> usize {
        if bytes <= LOOKED_UP { self.table[bytes.div_ceil(8)].into() } else { search(&self.sizes, bytes) }
    }

    /// Returns the size of a class.
    pub fn chunk(&self, class: usize) -> usize {
        self.sizes[class]
    }

    /// Returns the number of classes, class 0 included.
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
    fn classes_equal_those_of_memcached() {
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
