//! The plaintext server on monoio: one thread, all operations by io_uring.

use std::io;

use monoio::buf::IoBufMut;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use monoio::{IoUringDriver, RuntimeBuilder};

use super::http::{ROOM, Stay, requests};

/// Serves until an error.
pub fn serve(listener: std::net::TcpListener, stay: Stay) -> io::Result<()> {
    RuntimeBuilder::<IoUringDriver>::new().build()?.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            monoio::spawn(session(stream, stay));
        }
    })
}

/// An error ends one session only.
async fn session(mut stream: TcpStream, stay: Stay) -> io::Result<()> {
    let (mut buffer, mut filled) = (vec![0; ROOM], 0);
    loop {
        let (read, rest) = stream.read(buffer.slice_mut(filled..)).await;
        buffer = rest.into_inner();
        let count = read?;
        filled += count;
        let (asked, end) = requests(&buffer[..filled]);
        for _ in 0..asked {
            stream.write_all(stay.reply()).await.0?;
        }
        buffer.copy_within(end..filled, 0);
        filled -= end;
        if count == 0 || filled == ROOM || asked > 0 && stay == Stay::Close {
            return Ok(());
        }
    }
}
