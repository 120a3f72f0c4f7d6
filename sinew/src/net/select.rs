//! Waiting in a [`Select`](crate::sync::Select) until a socket is ready.

use super::socket::HasSocket;
use super::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use crate::io::Side;
use crate::sync::{SelectReader, SelectWriter};
use std::io;

macro_rules! reader {
    ($($Type:ident)*) => {$(
        impl SelectReader for $Type {
            async fn ready_to_read_async(&self) -> io::Result<()> {
                self.shared_socket().source().truly_ready_async(Side::Read).await
            }
        }
    )*};
}

macro_rules! writer {
    ($($Type:ident)*) => {$(
        impl SelectWriter for $Type {
            async fn ready_to_write_async(&self) -> io::Result<()> {
                self.shared_socket().source().truly_ready_async(Side::Write).await
            }
        }
    )*};
}

reader!(TcpListener TcpStream UdpSocket UnixDatagram UnixListener UnixStream);
writer!(TcpStream UdpSocket UnixDatagram UnixStream);
