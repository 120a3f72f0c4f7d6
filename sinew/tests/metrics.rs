//! Counters of a runtime: numbers after known work, states that add up, and the text.

mod fixture;

use fixture::loopback::pair;
use fixture::{LONG, Setup, alone, everywhere, in_set_ups, spin_until, wait_until};
use sinew::actor::{self, Actor, Context, Handle};
use sinew::metrics::{Metrics, ProcessorMetrics};
use sinew::sched::{Coloured, Fair, Locality, Random};
use sinew::sync::Semaphore;
use sinew::{Builder, Cluster, Runtime, task};
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn sum(metrics: &Metrics, what: impl Fn(&ProcessorMetrics) -> u64) -> u64 {
    metrics.processors().map(what).sum()
}

fn wakeups(metrics: &Metrics) -> u64 {
    let from_outside: u64 = metrics.clusters.iter().map(|cluster| cluster.wakeups_from_outside).sum();
    sum(metrics, |processor| processor.wakeups) + from_outside
}

/// Waits until no processor has work, and all live strands are counted as stopped: a processor adds up when it falls
/// asleep. A strand that is counted wrongly makes this hang. Returns a reading from then.
fn when_quiet(rt: &Runtime) -> Metrics {
    let is_quiet = |metrics: &Metrics| {
        let stops = sum(metrics, |processor| processor.stops);
        metrics.processors().all(|processor| processor.is_idle || !processor.has_thread)
            && stops.checked_sub(wakeups(metrics)) == Some(metrics.strands.live)
    };
    // Twice the same: a processor may have had a turn in the midst of the first reading.
    wait_until(|| {
        let (first, second) = (rt.metrics(), rt.metrics());
        let dispatches = |metrics: &Metrics| sum(metrics, |processor| processor.dispatches);
        is_quiet(&first) && is_quiet(&second) && dispatches(&first) == dispatches(&second)
    });
    rt.metrics()
}

/// Checks what holds whenever all processors sleep.
#[track_caller]
fn check_quiet(metrics: &Metrics) {
    let strands = metrics.strands;
    assert_eq!(strands.live, strands.ready + strands.running + strands.stopped);
    assert_eq!((strands.ready, strands.running), (0, 0), "{strands:?}");
    assert_eq!(sum(metrics, |processor| processor.stops) - wakeups(metrics), strands.stopped);
    let spawned = metrics.spawned_from_outside + sum(metrics, |processor| processor.spawned);
    assert_eq!(spawned - sum(metrics, |processor| processor.finished), strands.live);
    for processor in metrics.processors() {
        assert_eq!(processor.waits.count(), processor.dispatches, "{processor:?}");
    }
}

#[test]
fn states_add_up_and_are_exact_when_all_processors_sleep() {
    everywhere(|rt, _| {
        let gate = Arc::new(Semaphore::new(0));
        let before = when_quiet(rt);
        check_quiet(&before);
        assert_eq!(before.strands.live, 0);
        let fibres: Vec<_> = (0..50)
            .map(|_| {
                let gate = Arc::clone(&gate);
                rt.spawn(move || gate.wait())
            })
            .collect();
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let gate = Arc::clone(&gate);
                rt.spawn_task(async move { gate.acquire_async().await.forget() })
            })
            .collect();
        wait_until(|| rt.metrics().strands.stopped == 70);
        let metrics = when_quiet(rt);
        check_quiet(&metrics);
        assert_eq!((metrics.strands.live, metrics.strands.stopped), (70, 70));
        assert_eq!(metrics.spawned_from_outside - before.spawned_from_outside, 70);
        assert_eq!(sum(&metrics, |processor| processor.stops) - sum(&before, |processor| processor.stops), 70);
        gate.post(70);
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        tasks.into_iter().for_each(|task| task.join().unwrap());
        wait_until(|| rt.metrics().strands.live == 0);
        let after = when_quiet(rt);
        check_quiet(&after);
        assert_eq!(wakeups(&after) - wakeups(&before), 70);
        // This thread has woken them.
        assert_eq!(after.clusters[0].wakeups_from_outside - before.clusters[0].wakeups_from_outside, 70);
    });
}

#[test]
fn strands_that_a_sleeping_processor_wakes_for_others_are_counted() {
    everywhere(|rt, _| {
        let (gate, arrived) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let nap = || {
            let (gate, arrived) = (Arc::clone(&gate), Arc::clone(&arrived));
            move || {
                // The timers fire on the processor that minds them, for fibres that live on any.
                (0..5).for_each(|_| sinew::sleep(Duration::from_millis(1)));
                arrived.fetch_add(1, Relaxed);
                gate.wait();
            }
        };
        let fibres: Vec<_> = (0..40).map(|_| rt.spawn(nap())).collect();
        wait_until(|| arrived.load(Relaxed) == 40);
        wait_until(|| rt.metrics().strands.stopped == 40);
        check_quiet(&when_quiet(rt));
        gate.post(40);
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        wait_until(|| rt.metrics().strands.live == 0);
        check_quiet(&when_quiet(rt));
    });
}

#[test]
fn each_yield_is_one_dispatch_and_no_stop() {
    let one = |setup: &Setup| setup.processors == 1;
    in_set_ups(Setup::all().filter(one), |rt, _| {
        let before = when_quiet(rt);
        rt.run(|| (0..1000).for_each(|_| sinew::yield_now()));
        wait_until(|| rt.metrics().strands.live == 0);
        let after = when_quiet(rt);
        let counted = |what: fn(&ProcessorMetrics) -> u64| sum(&after, what) - sum(&before, what);
        assert_eq!(counted(|processor| processor.dispatches), 1001);
        assert_eq!(counted(|processor| processor.stops), 0);
        assert_eq!(counted(|processor| processor.finished), 1);
        // It may linger first.
        let sleeps = |metrics: &Metrics| sum(metrics, |processor| processor.sleeps);
        wait_until(|| sleeps(&rt.metrics()) > sleeps(&before));
    });
}

#[test]
fn strands_that_wake_each_other_are_counted_where_they_run() {
    everywhere(|rt, _| {
        let before = when_quiet(rt);
        rt.run(|| {
            let (there, back) = (Semaphore::new(0), Semaphore::new(0));
            sinew::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..500 {
                        there.wait();
                        back.post(1);
                    }
                });
                for _ in 0..500 {
                    there.post(1);
                    back.wait();
                }
            });
        });
        wait_until(|| rt.metrics().strands.live == 0);
        let after = when_quiet(rt);
        check_quiet(&after);
        // With several processors, a permit may come before the wait for it.
        if rt.main_cluster().processors() == 1 {
            let stops = sum(&after, |processor| processor.stops) - sum(&before, |processor| processor.stops);
            assert!((500..=1002).contains(&stops), "{stops}");
        }
        assert_eq!(sum(&after, |processor| processor.spawned) - sum(&before, |processor| processor.spawned), 1);
    });
}

struct Sleeper;
struct Sleep(Arc<Semaphore>);

impl Actor for Sleeper {}

impl Handle<Sleep> for Sleeper {
    type Reply = ();

    fn handle(&mut self, sleep: Sleep, _: &mut Context<'_, Self>) {
        sleep.0.wait();
    }
}

#[test]
fn an_actor_that_blocks_is_a_stopped_strand_until_it_goes_on() {
    everywhere(|rt, _| {
        let gate = Arc::new(Semaphore::new(0));
        let sleepers: Vec<_> = rt.run(|| (0..10).map(|_| actor::spawn(Sleeper)).collect());
        for _ in 0..3 {
            sleepers.iter().for_each(|sleeper| (0..2).for_each(|_| sleeper.tell(Sleep(Arc::clone(&gate))).unwrap()));
            wait_until(|| rt.metrics().strands.stopped == 10);
            let metrics = when_quiet(rt);
            check_quiet(&metrics);
            assert_eq!(metrics.strands.live, 10);
            gate.post(20);
            // Actors without a message are no live strands.
            wait_until(|| rt.metrics().strands.live == 0);
            check_quiet(&when_quiet(rt));
        }
        drop(sleepers);
        wait_until(|| rt.metrics().strands.live == 0);
        check_quiet(&when_quiet(rt));
    });
}

#[test]
fn strands_of_another_cluster_or_runtime_are_counted_once() {
    everywhere(|rt, setup| {
        let other = rt.cluster(setup.cluster_builder().name("other")).unwrap();
        let second = setup.build();
        let gate = Arc::new(Semaphore::new(0));
        let wait = || {
            let gate = Arc::clone(&gate);
            move || gate.wait()
        };
        let fibres: Vec<_> =
            (0..10).flat_map(|_| [rt.spawn(wait()), other.spawn(wait()), second.spawn(wait())]).collect();
        wait_until(|| rt.metrics().strands.stopped == 20 && second.metrics().strands.stopped == 10);
        check_quiet(&when_quiet(rt));
        rt.run(|| gate.post(30));
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        wait_until(|| rt.metrics().strands.live + second.metrics().strands.live == 0);
        let (metrics, of_second) = (when_quiet(rt), when_quiet(&second));
        check_quiet(&metrics);
        check_quiet(&of_second);
        assert_eq!(of_second.clusters[0].wakeups_from_outside, 10);
        let names: Vec<_> = metrics.clusters.iter().map(|cluster| &*cluster.name).collect();
        assert_eq!(names.len(), 2);
        assert_eq!(names[1], "other");
        drop(second);
    });
}

#[test]
fn a_strand_that_waits_for_its_processor_is_in_the_histogram() {
    alone(|| {
        let rt = Runtime::builder().processors(1).spares(0).build().unwrap();
        rt.run(|| {
            let rude = || {
                for _ in 0..40 {
                    let until = Instant::now() + Duration::from_millis(1);
                    spin_until(|| Instant::now() >= until);
                    sinew::yield_now();
                }
            };
            let fibres = [sinew::spawn(rude), sinew::spawn(rude)];
            fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        });
        let metrics = when_quiet(&rt);
        let waits = metrics.clusters[0].processors[0].waits;
        let is_long = |bound: &Option<Duration>| bound.is_none_or(|bound| bound > Duration::from_millis(1));
        let long: u64 = waits.buckets().filter(|(bound, _)| is_long(bound)).map(|(_, count)| count).sum();
        // 80 turns, and the first 16 may go by before the processor reads its clock.
        assert!(long >= 60, "{waits:?}");
        assert!(waits.sum() >= Duration::from_millis(60), "{waits:?}");
        assert!(waits.quantile(0.99).is_none_or(|bound| bound > Duration::from_millis(1)));
        assert_eq!(waits.count(), metrics.clusters[0].processors[0].dispatches);
        drop(rt);
    });
}

/// Runs tasks on a processor that does not get to them: others have to take them.
fn be_robbed(rt: &Runtime) -> u64 {
    let before = sum(&rt.metrics(), |processor| processor.steals + processor.rescues);
    rt.run(|| {
        let done = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let done = Arc::clone(&done);
                task::spawn(async move { done.fetch_add(1, Relaxed) })
            })
            .collect();
        spin_until(|| done.load(Relaxed) == 100);
        drop(tasks);
    });
    sum(&when_quiet(rt), |processor| processor.steals + processor.rescues) - before
}

#[test]
fn strands_that_other_processors_take_are_counted() {
    alone(|| {
        let builder = || Runtime::builder().processors(2).spares(0);
        let build = |builder: Builder| builder.build().unwrap();
        assert!(be_robbed(&build(builder().scheduler(Fair::default()))) >= 100);
        // These have meters of their own, which count all that thieves take.
        let random = Random::default();
        let locality = Locality::default();
        let coloured = Coloured::default();
        let meters = [random.meter(), locality.meter(), coloured.meter()];
        let builders = [builder().scheduler(random), builder().scheduler(locality), builder().scheduler(coloured)];
        for (meter, builder) in meters.into_iter().zip(builders) {
            let rt = build(builder);
            assert!(be_robbed(&rt) >= 1);
            let metrics = when_quiet(&rt);
            assert_eq!(sum(&metrics, |processor| processor.steals + processor.rescues), meter.read().strands);
        }
    });
}

#[test]
fn armed_timers_are_counted() {
    everywhere(|rt, _| {
        let gate = Arc::new(Semaphore::new(0));
        let wait = || {
            let gate = Arc::clone(&gate);
            move || gate.wait_timeout(LONG).unwrap()
        };
        let fibres: Vec<_> = (0..10).map(|_| rt.spawn(wait())).collect();
        wait_until(|| rt.metrics().clusters[0].timers == 10);
        gate.post(10);
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        assert_eq!(rt.metrics().clusters[0].timers, 0);
    });
}

#[test]
fn stacks_in_use_are_those_of_fibres_that_have_begun() {
    everywhere(|rt, _| {
        let gate = Arc::new(Semaphore::new(0));
        let wait = || {
            let gate = Arc::clone(&gate);
            move || gate.wait()
        };
        let fibres: Vec<_> = (0..200).map(|_| rt.spawn(wait())).collect();
        wait_until(|| rt.metrics().strands.stopped == 200);
        let metrics = when_quiet(rt);
        assert_eq!(metrics.stacks.in_use, 200);
        let carved = sinew::memory::usage().carved_stacks as u64;
        assert_eq!(metrics.stacks.pooled, carved - 200);
        assert!(metrics.stacks.carved_bytes >= carved * 256 * 1024);
        assert!(metrics.stacks.reserved_bytes >= metrics.stacks.carved_bytes);
        assert!(metrics.record_bytes >= 200 * 64);
        gate.post(200);
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        wait_until(|| when_quiet(rt).stacks.in_use == 0);
    });
}

#[test]
fn blocking_calls_that_wait_for_a_thread_are_counted() {
    alone(|| {
        let rt = Runtime::builder().processors(1).build().unwrap();
        sinew::io::set_blocking_threads(1);
        let (go, may_go) = channel::<()>();
        let may_go = Arc::new(std::sync::Mutex::new(may_go));
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let may_go = Arc::clone(&may_go);
                rt.spawn(move || sinew::blocking(move || may_go.lock().unwrap().recv().unwrap()))
            })
            .collect();
        wait_until(|| rt.metrics().blocking.queued_calls == 2);
        let blocking = rt.metrics().blocking;
        assert_eq!((blocking.threads, blocking.idle_threads), (1, 0));
        (0..3).for_each(|_| go.send(()).unwrap());
        calls.into_iter().for_each(|call| call.join().unwrap());
        wait_until(|| rt.metrics().blocking.queued_calls == 0 && rt.metrics().blocking.idle_threads == 1);
        sinew::io::set_blocking_threads(sinew::io::BLOCKING_THREADS);
        drop(rt);
    });
}

#[test]
fn looks_and_events_of_sockets_are_counted() {
    for polling in [sinew::io::Polling::Shared, sinew::io::Polling::PerProcessor, sinew::io::Polling::Thread] {
        alone(|| {
            let rt = Runtime::builder().processors(2).polling(polling).build().unwrap();
            rt.run(|| {
                let (mut here, mut there) = pair();
                let echo = sinew::spawn(move || {
                    let mut byte = [0];
                    while there.read(&mut byte).unwrap() == 1 {
                        there.write_all(&byte).unwrap();
                    }
                });
                for _ in 0..20 {
                    here.write_all(b"x").unwrap();
                    here.read_exact(&mut [0]).unwrap();
                }
                drop(here);
                echo.join().unwrap();
            });
            let metrics = when_quiet(&rt);
            let thread = metrics.clusters[0].polling_thread;
            assert_eq!(thread.is_some(), polling == sinew::io::Polling::Thread);
            let thread = thread.unwrap_or_default();
            let looks = sum(&metrics, |processor| processor.looks.looks) + thread.looks;
            let events = sum(&metrics, |processor| processor.looks.events) + thread.events;
            assert!(looks > 0 && events > 0, "{looks} looks, {events} events");
            assert_eq!(thread.looks > 0, polling == sinew::io::Polling::Thread);
            drop(rt);
        });
    }
}

#[test]
fn counters_go_on_when_a_processor_leaves_and_another_takes_its_number() {
    alone(|| {
        let rt = Runtime::builder().processors(2).spares(0).build().unwrap();
        let cluster = rt.main_cluster();
        let left = cluster.remove_processor().unwrap();
        wait_until(|| cluster.retiring() == 0);
        let of = |metrics: &Metrics| metrics.processors().find(|processor| processor.id == left).unwrap().clone();
        let before = of(&rt.metrics());
        assert!(!before.has_thread);
        assert_eq!(rt.metrics().clusters[0].serving, 1);
        assert_eq!(cluster.add_processor().unwrap(), left);
        wait_until(|| of(&rt.metrics()).has_thread);
        wait_until(|| of(&rt.metrics()).sleeps > before.sleeps);
        assert!(of(&rt.metrics()).idle >= before.idle);
        drop(rt);
    });
}

#[test]
fn a_processor_without_work_is_idle_all_the_time() {
    alone(|| {
        let rt = Runtime::builder().processors(1).spares(0).build().unwrap();
        let (before, began) = (when_quiet(&rt), Instant::now());
        wait_until(|| began.elapsed() > Duration::from_millis(20));
        let after = rt.metrics();
        let idle = after.clusters[0].processors[0].idle - before.clusters[0].processors[0].idle;
        assert!(idle >= Duration::from_millis(19), "{idle:?}");
        rt.run(|| {
            let (before, began) = (Metrics::current().unwrap(), Instant::now());
            spin_until(|| began.elapsed() > Duration::from_millis(20));
            let after = Metrics::current().unwrap();
            assert_eq!(after.clusters[0].processors[0].idle, before.clusters[0].processors[0].idle);
            assert_eq!((after.strands.running, after.strands.live), (1, 1));
        });
        drop(rt);
    });
}

#[test]
fn fibres_and_tasks_read_their_own_runtime() {
    everywhere(|rt, _| {
        assert!(Metrics::current().is_none());
        rt.run(|| {
            assert_eq!(Metrics::current().unwrap().strands.live, 1);
            let live = task::spawn(async { Metrics::current().unwrap().strands.live });
            assert_eq!(live.join().unwrap(), 2);
        });
    });
}

/// A sample of the text: its labels in order, and its value.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Reads a label's value up to its closing quote. Returns it, and what follows.
fn unquote(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next().map(|(_, c)| c) {
                Some('n') => '\n',
                Some(c @ ('"' | '\\')) => c,
                other => panic!("{other:?} is no escape"),
            }),
            c => value.push(c),
        }
    }
    panic!("no closing quote in {text}");
}

fn is_name(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

fn parse_sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            let (label, quoted) = inner.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
            assert!(is_name(label), "{line}");
            let (value, after) = unquote(quoted);
            labels.push((label.to_owned(), value));
            match after.strip_prefix(',') {
                Some(more) => inner = more,
                None => {
                    rest = after.strip_prefix('}').unwrap_or_else(|| panic!("no brace: {line}"));
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no space: {line}"));
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap_or_else(|_| panic!("no number: {line}")) }
}

/// Reads a text strictly: each family has its lines of metadata first, its samples together, and no other samples; no
/// sample comes twice. Returns the families with their types, and the samples.
fn parse(text: &str) -> (HashMap<String, String>, Vec<Sample>) {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with EOF");
    let (mut families, mut samples, mut seen) = (HashMap::new(), Vec::new(), HashSet::new());
    let (mut family, mut kind, mut helped) = (String::new(), String::new(), true);
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (keyword, rest) = comment.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            match keyword {
                "TYPE" => {
                    assert!(helped, "{family} has no help");
                    assert!(["counter", "gauge", "histogram"].contains(&value), "{line}");
                    assert!(is_name(name) && !name.ends_with("_total"), "{line}");
                    (family, kind, helped) = (name.to_owned(), value.to_owned(), false);
                    assert!(families.insert(family.clone(), kind.clone()).is_none(), "{family} comes twice");
                }
                "UNIT" => assert!(name == family && name.ends_with(&format!("_{value}")), "{line}"),
                "HELP" => {
                    assert!(name == family && !helped && !value.is_empty(), "{line}");
                    helped = true;
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let sample = parse_sample(line);
        let suffix = sample.name.strip_prefix(&*family).unwrap_or_else(|| panic!("{line} is not in {family}"));
        let suffixes: &[&str] = match &*kind {
            "counter" => &["_total"],
            "gauge" => &[""],
            _ => &["_bucket", "_count", "_sum"],
        };
        assert!(helped && suffixes.contains(&suffix), "{line}");
        let series = line.rsplit_once(' ').unwrap().0.to_owned();
        assert!(seen.insert(series), "{line} comes twice");
        samples.push(sample);
    }
    (families, samples)
}

#[test]
fn the_text_is_what_openmetrics_demands() {
    alone(|| {
        let strange = "a \"b\" \\ c é";
        let rt = Runtime::builder().processors(2).spares(0).name(strange).build().unwrap();
        let second = rt.cluster(Cluster::builder().processors(1).name("second")).unwrap();
        second.spawn(sinew::yield_now).join().unwrap();
        rt.run(|| (0..10_000).for_each(|_| sinew::yield_now()));
        let metrics = when_quiet(&rt);
        let (families, samples) = parse(&metrics.to_openmetrics());
        assert_eq!(families["sinew_dispatches"], "counter");
        let of = |name: &str| samples.iter().filter(|sample| sample.name == name).collect::<Vec<_>>();
        let dispatches: f64 = of("sinew_dispatches_total").iter().map(|sample| sample.value).sum();
        assert_eq!(dispatches as u64, sum(&metrics, |processor| processor.dispatches));
        let label =
            |sample: &Sample, name: &str| sample.labels.iter().find(|(known, _)| known == name).unwrap().1.clone();
        let clusters: HashSet<_> = of("sinew_dispatches_total").into_iter().map(|s| label(s, "cluster")).collect();
        assert_eq!(clusters, HashSet::from([strange.to_owned(), "second".to_owned()]));
        // The buckets of each histogram are cumulative, and end with that of all.
        let mut histograms: HashMap<_, Vec<(f64, f64)>> = HashMap::new();
        for bucket in of("sinew_ready_wait_seconds_bucket") {
            let bound = label(bucket, "le").parse().unwrap();
            let whose = (label(bucket, "cluster"), label(bucket, "processor"));
            histograms.entry(whose).or_default().push((bound, bucket.value));
        }
        assert_eq!(histograms.len(), 3);
        for (whose, buckets) in &histograms {
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{buckets:?}");
            assert_eq!(buckets.last().unwrap().0, f64::INFINITY);
            let is_its = |sample: &&&Sample| (label(sample, "cluster"), label(sample, "processor")) == *whose;
            let counts = of("sinew_ready_wait_seconds_count");
            assert_eq!(counts.iter().find(is_its).unwrap().value, buckets.last().unwrap().1);
        }
        drop(second);
        drop(rt);
    });
}

#[test]
fn a_program_may_add_its_own_metrics() {
    alone(|| {
        let rt = Runtime::builder().processors(1).build().unwrap();
        let mut text = String::new();
        rt.metrics().write_openmetrics(&mut text).unwrap();
        text.push_str("# TYPE requests counter\n# HELP requests Answered requests.\nrequests_total 1\n# EOF\n");
        let (families, _) = parse(&text);
        assert!(families.contains_key("requests") && families.contains_key("sinew_strands"));
        drop(rt);
    });
}

/// Returns all names in `text` that begin with `sinew_`.
fn names(text: &str) -> HashSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.starts_with("sinew_")).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    alone(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/grafana.json");
        let dashboard = std::fs::read_to_string(path).unwrap();
        let rt = Runtime::builder().processors(1).build().unwrap();
        let (_, samples) = parse(&rt.metrics().to_openmetrics());
        drop(rt);
        let known: HashSet<_> = samples.into_iter().map(|sample| sample.name).collect();
        let shown = names(&dashboard);
        assert!(shown.len() >= 15, "{shown:?}");
        let unknown: Vec<_> = shown.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?} is not in the text");
    });
}
