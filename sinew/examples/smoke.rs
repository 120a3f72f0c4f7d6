#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]
use std::sync::atomic::*;
use std::time::*;
fn main() {
    for migrating in [false, true] { for procs in [1, 2, 4] { for sched in 0..3 {
        let b = sinew::Runtime::builder().processors(procs);
        let b = match sched { 0 => b.scheduler(sinew::sched::Fair::default()), 1 => b.scheduler(sinew::sched::Inverted::default()), _ => b.scheduler(sinew::sched::Shared::default()) };
        let b = if migrating { unsafe { b.migrating() } } else { b };
        let t = Instant::now();
        let rt = b.build().unwrap();
        let handle = rt.spawn(|| 1);
        let three = rt.run(|| handle.join().unwrap() + sinew::spawn(|| 2).join().unwrap());
        assert_eq!(three, 3);
        static N: AtomicU64 = AtomicU64::new(0);
        N.store(0, Ordering::Relaxed);
        rt.run(|| {
            let hs: Vec<_> = (0..1000).map(|_| sinew::spawn(|| { for _ in 0..100 { N.fetch_add(1, Ordering::Relaxed); sinew::yield_now(); } })).collect();
            for h in hs { h.join().unwrap(); }
            sinew::sleep(Duration::from_millis(2));
            assert!(sinew::spawn(|| panic!("x")).join().is_err());
        });
        assert_eq!(N.load(Ordering::Relaxed), 100000);
        drop(rt);
        println!("migrating {migrating} procs {procs} sched {sched} {:?}", t.elapsed());
    }}}
}
