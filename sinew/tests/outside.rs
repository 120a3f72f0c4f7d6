//! Functions that need a runtime say so outside of one, and say what to do.

use sinew::actor::{self, Actor, Restart};
use sinew::event::Colour;
use sinew::task::{self, JoinSet, TaskBuilder};
use sinew::{Cluster, FibreBuilder, Runtime, time};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Waker};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

struct Idle;

impl Actor for Idle {}

/// Returns the message of the panic of `f`, or the error that it returns.
fn message(f: &dyn Fn() -> Result<(), String>) -> String {
    let text = |payload: Box<dyn Any + Send>| match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().unwrap()).to_owned(),
    };
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result.expect_err("it works outside of a runtime"),
        Err(payload) => text(payload),
    }
}

/// Says that the call has returned.
fn done<T>(_: T) -> Result<(), String> {
    Ok(())
}

/// Polls a future once, outside of any runtime.
fn poll(future: impl Future) -> Result<(), String> {
    let _ = Box::pin(future).as_mut().poll(&mut Context::from_waker(Waker::noop()));
    Ok(())
}

fn said<T, E: ToString>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

type Call<'a> = (&'a str, &'a str, &'a dyn Fn() -> Result<(), String>);

#[track_caller]
fn assert_all(calls: &[Call<'_>], advice: &str) {
    std::panic::set_hook(Box::new(|_| {}));
    let wrong: Vec<_> = calls
        .iter()
        .map(|(name, begins, call)| (name, format!("{begins}{advice}"), message(*call)))
        .filter(|(_, expected, message)| message != expected)
        .collect();
    let _ = std::panic::take_hook();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn calls_that_need_a_runtime_say_what_to_do() {
    let restart = || Restart::limit(1, MS);
    let calls: &[Call<'_>] = &[
        ("spawn", "cannot spawn a fibre: ", &|| done(sinew::spawn(|| ()))),
        ("FibreBuilder::spawn", "", &|| said(FibreBuilder::new().spawn(|| ()))),
        ("scope", "cannot spawn a fibre: ", &|| {
            sinew::scope(|scope| drop(scope.spawn(|| ())));
            Ok(())
        }),
        ("try_scope", "cannot spawn a fibre: ", &|| {
            let group = sinew::try_scope(|group| {
                group.spawn(|| Ok::<_, ()>(()));
                Ok(())
            });
            group.map_err(|()| String::new())
        }),
        ("task::spawn", "cannot spawn a task: ", &|| done(task::spawn(async {}))),
        ("task::spawn_local", "cannot spawn a task: ", &|| done(task::spawn_local(async {}))),
        ("task::spawn in block_on", "cannot spawn a task: ", &|| {
            sinew::block_on(async { drop(task::spawn(async {})) });
            Ok(())
        }),
        ("TaskBuilder::spawn", "", &|| said(TaskBuilder::new().spawn(async {}))),
        ("JoinSet::spawn", "cannot spawn a task: ", &|| {
            JoinSet::new().spawn(async {});
            Ok(())
        }),
        ("actor::spawn", "cannot spawn an actor: ", &|| done(actor::spawn(Idle))),
        ("actor::supervised", "cannot spawn an actor: ", &|| done(actor::supervised(restart(), || Idle))),
        ("actor::Builder::spawn", "cannot spawn an actor: ", &|| done(actor::Builder::new().spawn(Idle))),
        ("actor::Builder::try_spawn", "", &|| said(actor::Builder::new().try_spawn(Idle))),
        ("Colour::new", "cannot make a colour: ", &|| done(Colour::new())),
    ];
    assert_all(
        calls,
        "there is no runtime here: call this inside of `sinew::run`, or spawn on a `Runtime` or `Cluster`",
    );
    let timers: &[Call<'_>] = &[
        ("sleep_async", "", &|| poll(time::sleep_async(MS))),
        ("timeout_async", "", &|| poll(time::timeout_async(MS, std::future::pending::<()>()))),
    ];
    assert_all(
        timers,
        "cannot wait for a time: there is no runtime here: await this in a task, or inside of `sinew::block_on`",
    );
    let runtime = Runtime::builder().processors(1).build().unwrap();
    let moves: &[Call<'_>] = &[("migrate_to", "", &|| said(sinew::migrate_to(runtime.main_cluster())))];
    assert_all(moves, "only a fibre can migrate: call this inside of `sinew::run`, and not in a task");
    after_the_end();
}

/// Not a test of its own: the panic hook belongs to the process.
fn after_the_end() {
    let runtime = Runtime::builder().processors(1).build().unwrap();
    let cluster: Cluster = runtime.main_cluster().clone();
    drop(runtime);
    let calls: &[Call<'_>] = &[
        ("Cluster::spawn", "cannot spawn a fibre: ", &|| done(cluster.spawn(|| ()))),
        ("Cluster::spawn_task", "cannot spawn a task: ", &|| done(cluster.spawn_task(async {}))),
        ("FibreBuilder::cluster", "", &|| said(FibreBuilder::new().cluster(&cluster).spawn(|| ()))),
        ("actor::Builder::cluster", "cannot spawn an actor: ", &|| {
            drop(actor::Builder::new().cluster(&cluster).spawn(Idle));
            Ok(())
        }),
    ];
    assert_all(
        calls,
        "the runtime has ended: spawn before its `Runtime` is dropped, or in one of its own fibres and tasks",
    );
}
