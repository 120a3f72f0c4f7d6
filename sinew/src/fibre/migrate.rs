//! Moving a fibre to another cluster.

use super::with_record;
use crate::base::here;
use crate::processor::cluster::{Cluster, MigrateError};
use crate::stack::current_stack;
use crate::strand::{After, bound};
use crate::wait::suspend;

/// Moves the calling fibre to `cluster`, where it goes on.
///
/// # Errors
/// [`MigrateError`] says why the fibre may not move. Then it goes on where it is.
pub fn migrate_to(cluster: &Cluster) -> Result<(), MigrateError> {
    let check = with_record(|record| {
        let strand = record.ok_or(MigrateError::NotAFibre)?.strand();
        if !strand.cluster().is_of_same_runtime(cluster.shared()) {
            return Err(MigrateError::OtherRuntime);
        }
        if strand.is_bound(bound::STARTED) {
            return Err(MigrateError::NotMigrating);
        }
        // The panics of a fibre with an identity of its own go with it.
        if strand.is_bound(u8::MAX) || (std::thread::panicking() && here::thread() == 0) {
            return Err(MigrateError::Bound);
        }
        let elsewhere = !std::ptr::eq(strand.cluster(), cluster.shared());
        if elsewhere {
            strand.set_cluster(cluster.shared());
        }
        Ok(elsewhere)
    });
    if check? {
        suspend(current_stack().expect("a fibre has a stack"), After::Moving);
    }
    Ok(())
}
