//! The crate `redis`: its asynchronous form with sinew-tokio, its blocking form on the pool.

mod beside;
#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;
mod servers;

use beside::{assert_blocks_its_fibre, assert_blocks_its_processor, wherever_fibres_stay};
use fixture::{SOON, happens_within};
use redis::{AsyncCommands, Client, Commands};
use servers::Server;
use sinew_tokio::WithTokio;

fn client(server: &Server) -> Client {
    Client::open(format!("redis://{}/", server.address())).unwrap()
}

#[test]
fn the_asynchronous_form_works_with_sinew_tokio() {
    const FIBRES: usize = 20;
    let Some(server) = Server::redis() else { return };
    let client = client(&server);
    wherever_fibres_stay(|| {
        // A fibre connects, and fibres and tasks share the connection.
        let connection = sinew_tokio::block_on(client.get_multiplexed_async_connection()).unwrap();
        let _: () = sinew_tokio::block_on(connection.clone().set("sum", 0)).unwrap();
        let increment = |number: usize| {
            let mut connection = connection.clone();
            async move {
                let key = format!("key {number}");
                let _: () = connection.set(&key, number).await.unwrap();
                assert_eq!(connection.get::<_, usize>(&key).await.unwrap(), number);
                connection.incr::<_, _, usize>("sum", number).await.unwrap();
            }
        };
        let tasks: Vec<_> = (0..FIBRES).map(|number| sinew::task::spawn(increment(number).with_tokio())).collect();
        sinew::scope(|scope| {
            for number in 0..FIBRES {
                let increment = increment(number);
                scope.spawn(move || sinew_tokio::block_on(increment));
            }
        });
        tasks.into_iter().for_each(|task| task.join().unwrap());
        let sum: usize = sinew_tokio::block_on(connection.clone().get("sum")).unwrap();
        assert_eq!(sum, 2 * (0..FIBRES).sum::<usize>());
    });
}

#[test]
fn the_asynchronous_form_panics_without_a_context() {
    let Some(server) = Server::redis() else { return };
    let client = client(&server);
    let message = beside::panics(move || sinew::block_on(client.get_multiplexed_async_connection()).map(drop).unwrap());
    assert!(message.contains("no reactor running"), "{message}");
}

/// Waits on the server until somebody pushes to the list.
fn pop(client: &Client) {
    let popped: (String, String) = client.get_connection().unwrap().blpop("list", 0.0).unwrap();
    assert_eq!(popped.1, "value");
}

/// Pushes to the list when the server says that somebody waits for it.
fn push(client: &Client) {
    let mut connection = client.get_connection().unwrap();
    let mut blocked = || {
        let information: String = redis::cmd("INFO").arg("clients").query(&mut connection).unwrap();
        information.contains("blocked_clients:1")
    };
    let blocked = std::cell::RefCell::new(&mut blocked);
    assert!(happens_within(SOON, || (*blocked.borrow_mut())()));
    let _: () = connection.rpush("list", "value").unwrap();
}

#[test]
fn the_blocking_form_holds_up_its_processor() {
    let Some(server) = Server::redis() else { return };
    let (here, there) = (client(&server), client(&server));
    assert_blocks_its_processor(move || pop(&there), || push(&here));
}

#[test]
fn the_blocking_form_on_the_pool_blocks_its_fibre_only() {
    let Some(server) = Server::redis() else { return };
    let (here, there) = (client(&server), client(&server));
    assert_blocks_its_fibre(move || sinew::blocking(|| pop(&there)), || push(&here));
}
