//! Counters of what happens to items.

macro_rules! counters {
    ($(#[$doc:meta])* $Name:ident: $($name:ident)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $Name {
            $(#[allow(missing_docs)] pub $name: u64,)*
        }

        impl std::ops::AddAssign for $Name {
            fn add_assign(&mut self, other: $Name) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Counters of a shard that do not depend on the size of items. Guarded by the shard's lock.
    Counters:
    cmd_get cmd_touch cmd_meta
    get_misses get_expired get_flushed
    delete_misses incr_misses decr_misses cas_misses touch_misses
    total_items store_too_large store_no_memory lru_moves
}

counters! {
    /// Counters of one class of sizes in a shard. Guarded by the shard's lock.
    ClassCounters:
    get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits
    evicted evicted_nonzero evicted_unfetched evicted_active out_of_memory
    spared reclaimed expired_unfetched crawler_reclaimed crawler_items_checked
}

counters! {
    /// The items of one class of sizes that exist.
    Stock:
    items bytes temporary spared
}

/// Everything that is counted for one class of sizes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    /// The items that exist.
    pub stock: Stock,
    /// The event.
    pub counters: ClassCounters,
    /// The number of seconds since the last use of the item that was evicted last, at its eviction.
    pub evicted_time: u32,
}

impl std::ops::AddAssign for Class {
    fn add_assign(&mut self, other: Class) {
        self.stock += other.stock;
        self.counters += other.counters;
        self.evicted_time = self.evicted_time.max(other.evicted_time);
    }
}
