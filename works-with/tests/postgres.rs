//! PostgreSQL's clients: tokio-postgres and sqlx with sinew-tokio, tokio-postgres on Sinew's own
//! sockets, the blocking `postgres` on the pool.

mod beside;
#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;
mod servers;

use beside::{assert_blocks_its_fibre, assert_blocks_its_processor, wherever_fibres_stay};
use servers::Server;
use sinew::net::TcpStream;
use sinew_tokio::{SinewIo, WithTokio, block_on};
use sqlx::postgres::PgPoolOptions;
use tokio_postgres::{Client, Config, NoTls};

const FIBRES: i64 = 20;

fn config(server: &Server) -> Config {
    format!("host=127.0.0.1 port={} user=sinew dbname=postgres", server.port).parse().unwrap()
}

/// Inserts rows in a transaction, and reads them from several fibres at once.
fn use_client(client: &mut Client) {
    let fill = async {
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute("CREATE TEMPORARY TABLE numbers (n bigint, name text)").await.unwrap();
        for n in 0..FIBRES {
            let name = format!("number {n}");
            transaction.execute("INSERT INTO numbers VALUES ($1, $2)", &[&n, &name]).await.unwrap();
        }
        transaction.commit().await.unwrap();
    };
    block_on(fill);
    let client = &*client;
    sinew::scope(|scope| {
        for n in 0..FIBRES {
            scope.spawn(move || {
                let row = block_on(client.query_one("SELECT name FROM numbers WHERE n = $1", &[&n])).unwrap();
                assert_eq!(row.get::<_, String>(0), format!("number {n}"));
            });
        }
    });
    let error = block_on(client.query("SELECT nothing FROM nowhere", &[])).unwrap_err();
    assert!(error.as_db_error().is_some());
    block_on(client.batch_execute("DROP TABLE numbers")).unwrap();
}

#[test]
fn tokio_postgres_works_with_sinew_tokio() {
    let Some(server) = Server::postgres() else { return };
    wherever_fibres_stay(|| {
        let (mut client, connection) = block_on(config(&server).connect(NoTls)).unwrap();
        // The connection is a task of Sinew's.
        let connection = sinew::task::spawn(connection.with_tokio());
        use_client(&mut client);
        drop(client);
        connection.join().unwrap().unwrap();
    });
}

#[test]
fn tokio_postgres_runs_on_a_socket_of_sinew() {
    let Some(server) = Server::postgres() else { return };
    wherever_fibres_stay(|| {
        let stream = SinewIo::new(TcpStream::connect(server.address()).unwrap());
        let (mut client, connection) = sinew::block_on(config(&server).connect_raw(stream, NoTls)).unwrap();
        // No context: the bytes do not pass through Tokio.
        let connection = sinew::task::spawn(connection);
        use_client(&mut client);
        drop(client);
        connection.join().unwrap().unwrap();
    });
}

#[test]
fn sqlx_works_with_sinew_tokio() {
    let Some(server) = Server::postgres() else { return };
    let url = format!("postgres://sinew@{}/postgres", server.address());
    wherever_fibres_stay(|| {
        // Fewer connections than fibres, so that fibres wait for one.
        let pool = block_on(PgPoolOptions::new().max_connections(3).connect(&url)).unwrap();
        let pool = &pool;
        sinew::scope(|scope| {
            for n in 0..FIBRES {
                let ask = async move {
                    let sum = sqlx::query_scalar::<_, i64>("SELECT $1 + 1").bind(n).fetch_one(pool);
                    assert_eq!(sum.await.unwrap(), n + 1);
                };
                sinew::FibreBuilder::new().stack_size(beside::STACK).spawn_scoped(scope, || block_on(ask)).unwrap();
            }
        });
        let task = sinew::task::spawn({
            let pool = pool.clone();
            async move {
                let mut transaction = pool.begin().await.unwrap();
                sqlx::query("CREATE TEMPORARY TABLE words (word text)").execute(&mut *transaction).await.unwrap();
                sqlx::query("INSERT INTO words VALUES ('one')").execute(&mut *transaction).await.unwrap();
                let word = sqlx::query_scalar::<_, String>("SELECT word FROM words");
                assert_eq!(word.fetch_one(&mut *transaction).await.unwrap(), "one");
                transaction.rollback().await.unwrap();
            }
            .with_tokio()
        });
        task.join().unwrap();
        block_on(pool.close());
    });
}

#[test]
fn tokio_postgres_panics_without_a_context() {
    let Some(server) = Server::postgres() else { return };
    let config = config(&server);
    let message = beside::panics(move || sinew::block_on(config.connect(NoTls)).map(drop).unwrap());
    assert!(message.contains("no reactor running"), "{message}");
}

/// Returns a call that waits on the server, and one that ends it.
fn lock(server: &Server) -> (impl FnOnce() + Send + 'static, impl FnOnce()) {
    let connect = format!("host=127.0.0.1 port={} user=sinew dbname=postgres", server.port);
    let mut owner = postgres::Client::connect(&connect, postgres::NoTls).unwrap();
    owner.batch_execute("SELECT pg_advisory_lock(1)").unwrap();
    let wait = move || {
        let mut client = postgres::Client::connect(&connect, postgres::NoTls).unwrap();
        client.batch_execute("SELECT pg_advisory_lock(1)").unwrap();
    };
    (wait, move || owner.batch_execute("SELECT pg_advisory_unlock(1)").unwrap())
}

#[test]
fn the_blocking_form_holds_up_its_processor() {
    let Some(server) = Server::postgres() else { return };
    let (wait, release) = lock(&server);
    assert_blocks_its_processor(wait, release);
}

#[test]
fn the_blocking_form_on_the_pool_blocks_its_fibre_only() {
    let Some(server) = Server::postgres() else { return };
    let (wait, release) = lock(&server);
    assert_blocks_its_fibre(move || sinew::blocking(wait), release);
}
