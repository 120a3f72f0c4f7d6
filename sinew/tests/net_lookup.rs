//! Looking up the names of hosts, without a network: `localhost`, and addresses.

mod fixture;

use fixture::{alone, everywhere};
use sinew::net::{self, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use sinew::task;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn localhost_is_looked_up_by_fibres_tasks_and_threads() {
    let is_local = |addresses: std::io::Result<Vec<IpAddr>>| {
        let addresses = addresses.unwrap();
        assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    };
    everywhere(|rt, _| {
        rt.run(|| {
            is_local(net::lookup("localhost"));
            is_local(net::lookup_timeout("localhost", LONG));
            is_local(net::lookup_deadline("localhost", Instant::now() + LONG));
            is_local(task::spawn(async { net::lookup_async("localhost").await }).join().unwrap());
        });
    });
    alone(|| {
        is_local(net::lookup("localhost"));
        is_local(net::lookup_timeout("localhost", LONG));
        is_local(sinew::block_on(net::lookup_async("localhost")));
    });
}

#[test]
fn an_address_is_never_looked_up() {
    everywhere(|rt, _| {
        // In a task a lookup that blocks panics.
        let task = rt.spawn_task(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            assert_eq!("[::1]:80".to_socket_addrs().unwrap().len(), 1);
            assert_eq!(("::1".to_owned(), 80).to_socket_addrs().unwrap().len(), 1);
            assert_eq!(listener.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
            net::lookup("127.0.0.1").unwrap()
        });
        assert_eq!(task.join().unwrap(), [Ipv4Addr::LOCALHOST]);
    });
}

#[test]
fn tasks_use_names_where_fibres_do() {
    everywhere(|rt, _| {
        let task = rt.spawn_task(async {
            let listener = TcpListener::bind_async("localhost:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let stream = TcpStream::connect_async(("localhost", port)).await.unwrap();
            let (_, from) = listener.accept_async().await.unwrap();
            assert_eq!(stream.local_addr().unwrap(), from);
            let (here, there) =
                (UdpSocket::bind_async("localhost:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
            let port = there.local_addr().unwrap().port();
            here.send_to_async(b"one", format!("localhost:{port}")).await.unwrap();
            here.connect_async(("localhost".to_owned(), port)).await.unwrap();
            here.send_async(b"two").await.unwrap();
            let mut buffer = [0; 8];
            for expected in [b"one", b"two"] {
                let (count, _) = there.recv_from_async(&mut buffer).await.unwrap();
                assert_eq!(&buffer[..count], expected);
            }
        });
        task.join().unwrap();
    });
}

#[test]
fn names_that_nobody_has_are_errors() {
    everywhere(|rt, _| {
        rt.run(|| {
            assert!(net::lookup("a\0b").is_err());
            assert!("localhost".to_socket_addrs().is_err(), "there is no port");
            assert!("localhost:65536".to_socket_addrs().is_err());
            assert!(net::lookup("").is_err());
        });
    });
}
