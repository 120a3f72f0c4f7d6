//! Settings and arguments that the runtime refuses, and what its errors say.

mod fixture;

use fixture::{alone, everywhere, kernel_thread_name, message};
use sinew::sched::MAX_PROCESSORS;
use sinew::{BuildError, Builder, Cluster, ClusterBuilder, FibreBuilder, ResizeError, Runtime, SpawnError};
use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;

/// Returns the error of building such a runtime, and the error of adding such a cluster to a
/// running one.
fn refusals(build: impl Fn() -> ClusterBuilder) -> [BuildError; 2] {
    let rt = Runtime::builder().processors(1).build().unwrap();
    let as_cluster = rt.cluster(build()).map(|_| ()).unwrap_err();
    assert_eq!(rt.run(|| 1), 1, "the runtime still works");
    [Builder::from(build()).build().map(|_| ()).unwrap_err(), as_cluster]
}

#[test]
fn zero_processors_are_refused() {
    alone(|| {
        for error in refusals(|| Cluster::builder().processors(0)) {
            assert!(matches!(error, BuildError::NoProcessors), "{error:?}");
            assert!(error.to_string().contains("1 or more"), "{error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
        }
    });
}

#[test]
fn too_many_processors_are_refused() {
    alone(|| {
        for processors in [MAX_PROCESSORS + 1, usize::MAX] {
            for error in refusals(|| Cluster::builder().processors(processors)) {
                assert!(matches!(error, BuildError::TooManyProcessors), "{error:?}");
                assert!(error.to_string().contains(&MAX_PROCESSORS.to_string()), "{error}");
            }
        }
    });
}

#[test]
fn a_cluster_has_room_for_max_processors_and_no_more() {
    alone(|| {
        let rt = Runtime::builder().processors(MAX_PROCESSORS).build().unwrap();
        let cluster = rt.main_cluster();
        assert_eq!(cluster.processors(), MAX_PROCESSORS);
        assert!(matches!(cluster.add_processor(), Err(ResizeError::TooMany)));
        let handles: Vec<_> = (0..2000).map(|n| rt.spawn(move || n)).collect();
        let sum: u32 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(sum, (0..2000).sum::<u32>());
    });
}

#[test]
fn the_smallest_stack_is_enough_for_a_fibre() {
    everywhere(|rt, setup| {
        for bytes in [0, 1, 4096, 16 * 1024] {
            let builder = FibreBuilder::new().cluster(rt.main_cluster()).stack_size(bytes);
            let handle = builder.spawn(|| {
                sinew::yield_now();
                format!("{:?}", sinew::current().id()).len()
            });
            assert!(handle.unwrap().join().unwrap() > 0);
        }
        let small = setup.builder().stack_size(1).build().unwrap();
        assert_eq!(small.run(|| sinew::spawn(|| 5).join().unwrap()), 5);
    });
}

#[test]
fn a_stack_that_is_too_large_is_refused() {
    everywhere(|rt, _| {
        for too_large in [(256 << 20) + 1, 1 << 60, usize::MAX] {
            let kept = Arc::new(());
            let closure = Arc::clone(&kept);
            let builder = FibreBuilder::new().cluster(rt.main_cluster()).stack_size(too_large);
            let error = builder.spawn(move || drop(closure)).unwrap_err();
            assert!(matches!(error, SpawnError::StackTooLarge { bytes } if bytes == too_large), "{error:?}");
            assert!(error.to_string().contains(&too_large.to_string()), "{error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
            assert_eq!(Arc::strong_count(&kept), 1, "the closure is dropped");
        }
        assert_eq!(rt.live_strands(), 0);
    });
    alone(|| {
        for error in refusals(|| Cluster::builder().stack_size(1 << 60)) {
            assert!(matches!(error, BuildError::StackTooLarge { bytes } if bytes == 1 << 60), "{error:?}");
        }
    });
}

#[test]
fn a_name_with_a_nul_is_refused() {
    everywhere(|rt, _| {
        let builder = FibreBuilder::new().cluster(rt.main_cluster()).name("nul\0inside");
        let error = builder.spawn(|| ()).unwrap_err();
        assert!(matches!(error, SpawnError::NameContainsNul), "{error:?}");
        assert!(error.to_string().contains("NUL"), "{error}");
        let scoped = rt.run(|| {
            sinew::scope(|scope| FibreBuilder::new().name("\0").spawn_scoped(scope, || ()).map(|_| ()).unwrap_err())
        });
        assert!(matches!(scoped, SpawnError::NameContainsNul), "{scoped:?}");
    });
    alone(|| {
        for error in refusals(|| Cluster::builder().name("a\0b")) {
            assert!(matches!(error, BuildError::NameContainsNul), "{error:?}");
        }
    });
}

#[test]
fn an_empty_name_and_a_long_name_are_accepted() {
    everywhere(|rt, setup| {
        let long = "n".repeat(1000);
        for name in ["", "short", &long, "fibrës"] {
            let builder = FibreBuilder::new().cluster(rt.main_cluster()).name(name);
            let handle = builder.spawn(|| sinew::current().name().map(str::to_owned)).unwrap();
            assert_eq!(handle.join().unwrap().as_deref(), Some(name));
            let named = setup.builder().name(name).build().unwrap();
            let thread = named.run(kernel_thread_name);
            assert!(format!("{name}-").starts_with(&thread) || thread.starts_with(&format!("{name}-")), "{thread}");
        }
    });
}

#[test]
fn an_empty_set_of_cpus_is_refused() {
    alone(|| {
        for error in refusals(|| Cluster::builder().pin_cpus([])) {
            assert!(matches!(error, BuildError::EmptyCpuSet), "{error:?}");
            assert!(error.to_string().contains("pin_cpus"), "{error}");
        }
    });
}

#[test]
fn a_cpu_that_does_not_exist_is_refused() {
    alone(|| {
        // One number is within the kernel's set of CPUs, two are beyond it.
        for cpu in [1023, 1024, usize::MAX] {
            let refused = refusals(|| Cluster::builder().processors(2).pin_cpus([0, cpu]));
            for error in refused {
                assert!(matches!(error, BuildError::Kernel(_)), "{error:?}");
                assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
            }
        }
    });
}

#[test]
fn spawning_without_a_runtime_gives_an_error_that_says_what_to_do() {
    alone(|| {
        let error = FibreBuilder::new().spawn(|| ()).unwrap_err();
        assert!(matches!(error, SpawnError::NoRuntime), "{error:?}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Unsupported);
        let payload = catch_unwind(|| sinew::spawn(|| ())).map(|_| ()).unwrap_err();
        assert!(message(&*payload).contains("sinew::run"), "{}", message(&*payload));
        let payload = catch_unwind(|| sinew::scope(|scope| scope.spawn(|| ()).join().is_ok())).unwrap_err();
        assert!(message(&*payload).contains("sinew::run"), "{}", message(&*payload));
        assert_eq!(sinew::Cluster::current(), None);
    });
}

#[test]
fn a_refused_spawn_promises_no_stack() {
    everywhere(|rt, _| {
        rt.run(|| {
            for _ in 0..1000 {
                FibreBuilder::new().name("\0").spawn(|| ()).unwrap_err();
                FibreBuilder::new().stack_size(usize::MAX).spawn(|| ()).unwrap_err();
            }
        });
        // The fixture counts the stacks that are left.
        assert_eq!(rt.run(|| sinew::spawn(|| 1).join().unwrap()), 1);
    });
}
