//! What happened, counted.

macro_rules! counters {
    ($($name:ident)*) => {
        /// What happened to the items of a shard. Guarded by its lock.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Counters {
            $(#[allow(missing_docs)] pub $name: u64,)*
        }

        impl std::ops::AddAssign for Counters {
            fn add_assign(&mut self, other: Counters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    cmd_get cmd_set cmd_touch cmd_meta
    get_hits get_misses get_expired get_flushed
    delete_hits delete_misses incr_hits incr_misses decr_hits decr_misses
    cas_hits cas_misses cas_badval touch_hits touch_misses
    total_items evictions evicted_unfetched reclaimed out_of_memory
    store_too_large store_no_memory expired_unfetched
}
