//! An echo server whose clusters share no descriptor table in the kernel. Each cluster has an event
//! scope of its own, and listens at the same port.
//!
//! ```sh
//! cargo run --release -p sinew --example event_scopes -- 127.0.0.1:7000 4
//! ```

use sinew::io::EventScope;
use sinew::net::{SocketAddr, TcpListener, TcpStream};
use sinew::{Cluster, Runtime};
use std::io::{self, Read, Write};

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::builder().reuse_port(true).bind(address)?;
    println!("{} listens at {}", Cluster::current().expect("a fibre has a cluster").name(), listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        // An error ends this session only.
        sinew::spawn(move || drop(echo(stream)));
    }
    Ok(())
}

#[allow(unsafe_code)]
fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7000".to_owned());
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let scopes = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(2);
    let runtime = Runtime::builder().processors(1).build()?;
    let listeners = (0..scopes).map(|number| {
        // SAFETY: each event scope opens its own sockets, and gives none away. They share only the
        // standard output.
        let scope = unsafe { EventScope::new() }?;
        let plan = Cluster::builder().processors(1).name(format!("event scope {number}")).event_scope(&scope);
        Ok(runtime.cluster(plan)?.spawn(move || listen(address)))
    });
    let listeners: Vec<_> = listeners.collect::<io::Result<_>>()?;
    listeners.into_iter().try_for_each(|listener| listener.join().expect("a listener does not panic"))
}
