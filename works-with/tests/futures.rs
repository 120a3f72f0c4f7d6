//! Futures that wake their waker from wherever they are: they work in tasks and in `block_on` as they
//! are.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use async_io::{Async, Timer};
use fixture::everywhere;
use sinew::{block_on, task};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Barrier, Mutex, Notify, RwLock, Semaphore, broadcast, mpsc, oneshot, watch};

const TASKS: usize = 20;

#[test]
fn tokio_sync_meets_between_fibres_and_tasks() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, mut receiver) = mpsc::channel(2);
            let sum = Arc::new(Mutex::new(0));
            let (permits, barrier) = (Arc::new(Semaphore::new(3)), Arc::new(Barrier::new(TASKS)));
            let tasks: Vec<_> = (0..TASKS)
                .map(|number| {
                    let (sender, sum) = (sender.clone(), Arc::clone(&sum));
                    let (permits, barrier) = (Arc::clone(&permits), Arc::clone(&barrier));
                    task::spawn(async move {
                        barrier.wait().await;
                        let _permit = permits.acquire().await.unwrap();
                        *sum.lock().await += number;
                        sender.send(number).await.unwrap();
                    })
                })
                .collect();
            drop(sender);
            // A fibre receives.
            let mut received: Vec<_> = std::iter::from_fn(|| block_on(receiver.recv())).collect();
            received.sort_unstable();
            assert!(received.into_iter().eq(0..TASKS));
            tasks.into_iter().for_each(|task| task.join().unwrap());
            assert_eq!(*block_on(sum.lock()), (0..TASKS).sum());
        });
    });
}

#[test]
fn tokio_sync_tells_all_that_wait() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (watched, mut watcher) = watch::channel(0);
            let (news, mut listener) = broadcast::channel(4);
            let (answer, answered) = oneshot::channel();
            let (notify, shared) = (Arc::new(Notify::new()), Arc::new(RwLock::new(0)));
            let task = task::spawn({
                let (notify, shared) = (Arc::clone(&notify), Arc::clone(&shared));
                async move {
                    watcher.wait_for(|&value| value == 7).await.unwrap();
                    assert_eq!(listener.recv().await.unwrap(), "news");
                    *shared.write().await = 1;
                    notify.notify_one();
                    answered.await.unwrap()
                }
            });
            watched.send(7).unwrap();
            news.send("news").unwrap();
            block_on(notify.notified());
            assert_eq!(*block_on(shared.read()), 1);
            answer.send(42).unwrap();
            assert_eq!(task.join().unwrap(), 42);
        });
    });
}

#[test]
fn async_io_has_a_reactor_of_its_own() {
    const LIMIT: Duration = Duration::from_millis(2);
    everywhere(|rt, _| {
        rt.run(|| {
            let began = Instant::now();
            block_on(Timer::after(LIMIT));
            assert!(began.elapsed() >= LIMIT);
            let listener = Async::<TcpListener>::bind(([127, 0, 0, 1], 0)).unwrap();
            let address = listener.get_ref().local_addr().unwrap();
            let server = task::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let mut byte = [0];
                stream.read_with(|mut stream| stream.read_exact(&mut byte)).await.unwrap();
                stream.write_with(|mut stream| stream.write_all(&[byte[0] + 1])).await.unwrap();
            });
            let mut client = sinew::net::TcpStream::connect(address).unwrap();
            client.write_all(&[41]).unwrap();
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            assert_eq!(byte[0], 42);
            server.join().unwrap();
        });
    });
}

#[test]
fn flume_has_forms_for_tasks() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, receiver) = flume::bounded(1);
            let task = task::spawn(async move {
                for number in 0..100 {
                    sender.send_async(number).await.unwrap();
                }
            });
            let received = std::iter::from_fn(|| block_on(receiver.recv_async()).ok());
            assert!(received.eq(0..100));
            task.join().unwrap();
        });
    });
}
