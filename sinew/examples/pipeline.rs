//! A pipeline of three stages on three clusters. A fibre carries its item from one to the next.
//!
//! A cluster is a set of processors with a scheduler of its own. `migrate_to` moves the calling
//! fibre to another cluster.

use sinew::{Cluster, Runtime, migrate_to, sched};
use std::error::Error;

#[allow(unsafe_code)]
fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: the fibres below hold nothing that is bound to a kernel thread when they migrate.
    let runtime = unsafe { Runtime::builder().name("parse").processors(1).migrating() }.build()?;
    let compute = runtime.cluster(Cluster::builder().name("compute").processors(2))?;
    let write = runtime.cluster(Cluster::builder().name("write").processors(1).scheduler(sched::Shared::default()))?;

    let items = ["3", "1", "4", "1", "5"];
    let fibres = items.map(|item| {
        let (compute, write) = (compute.clone(), write.clone());
        runtime.spawn(move || {
            let number: u64 = item.parse().unwrap();
            migrate_to(&compute).unwrap();
            let factorial: u64 = (1..=number).product();
            migrate_to(&write).unwrap();
            println!("{number}! = {factorial}, written by {:?}", std::thread::current().name());
            factorial
        })
    });
    let sum: u64 = fibres.into_iter().map(|fibre| fibre.join().unwrap()).sum();
    assert_eq!(sum, 6 + 1 + 24 + 1 + 120);
    Ok(())
}
