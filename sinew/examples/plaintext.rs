//! A web server in thirty lines: one plain blocking function for each connection.
//!
//! ```sh
//! cargo run --release -p sinew --example plaintext -- 127.0.0.1:8080
//! curl http://127.0.0.1:8080/
//! ```

use sinew::net::{TcpListener, TcpStream};
use std::io::{self, Read, Write};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";

/// Answers each request until the client closes the connection.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut filled) = ([0; 4096], 0);
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        filled += count;
        // A request without a body ends with an empty line. Several may arrive at a time.
        let requests = buffer[..filled].windows(4).filter(|end| end == b"\r\n\r\n").count();
        if requests > 0 {
            stream.write_all(&ANSWER.repeat(requests))?;
            let end = buffer[..filled].windows(4).rposition(|end| end == b"\r\n\r\n").map_or(0, |start| start + 4);
            buffer.copy_within(end..filled, 0);
            filled -= end;
        }
        if count == 0 || filled == buffer.len() {
            return Ok(());
        }
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let processors = std::env::args().nth(2).and_then(|number| number.parse().ok()).unwrap_or(1);
    let runtime = sinew::Runtime::builder().processors(processors).build().map_err(io::Error::other)?;
    runtime.run(move || {
        let listener = TcpListener::bind(address.as_str())?;
        println!("listening at http://{}/", listener.local_addr()?);
        for stream in listener.incoming() {
            let stream = stream?;
            // An error ends this session only.
            sinew::spawn(move || drop(serve(stream)));
        }
        Ok(())
    })
}
