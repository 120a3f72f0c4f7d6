//! The servers: a child serves on one processor until the parent has had enough.

use std::io::{self, Read, Write, stdin};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bare;
use crate::plaintext::ONE_EACH;
use crate::protocol::{ROOM, Stay, requests};
use crate::support::case::{Case, Contender, Scheduler};
use crate::support::child::Reading;

/// What a server says when it is ready.
pub const LISTENING: &str = "listening at ";

const ANYWHERE: &str = "127.0.0.1:0";

/// What a child does. It ends when its standard input does, which is the case also when
/// the parent is killed.
pub fn serve(case: &Case) -> Reading {
    thread::spawn(|| {
        let _ = stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let stay = if case.experiment == ONE_EACH { Stay::Close } else { Stay::Open };
    let failed = match case.contender {
        Contender::Sinew(scheduler) => fibres(scheduler, stay),
        Contender::Epoll => bare::serve(stay),
        Contender::Tokio => tasks(stay),
        Contender::May => coroutines(stay),
        Contender::Threads => threads(stay),
    };
    panic!("a server ended: {failed:?}");
}

pub fn announce(address: io::Result<std::net::SocketAddr>) -> io::Result<()> {
    println!("{LISTENING}{}", address?);
    Ok(())
}

/// The session that all runtimes with stacks run.
fn session(mut stream: impl Read + Write, stay: Stay) -> io::Result<()> {
    let (mut buffer, mut filled) = ([0; ROOM], 0);
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let (asked, end) = requests(&buffer[..filled]);
        for _ in 0..asked {
            stream.write_all(stay.answer())?;
        }
        if asked > 0 && stay == Stay::Close {
            return Ok(());
        }
        buffer.copy_within(end..filled, 0);
        filled -= end;
        if filled == ROOM {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

fn fibres(scheduler: Scheduler, stay: Stay) -> io::Result<()> {
    let builder = sinew::Runtime::builder().processors(1);
    let builder = match scheduler {
        Scheduler::Fair => builder.scheduler(sinew::sched::Fair::default()),
        Scheduler::Inverted => builder.scheduler(sinew::sched::Inverted::default()),
        Scheduler::Shared => builder.scheduler(sinew::sched::Shared::default()),
    };
    builder.build().map_err(io::Error::other)?.run(|| {
        let listener = sinew::net::TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        for stream in listener.incoming() {
            let stream = stream?;
            stream.set_nodelay(true)?;
            // A client that breaks off is no concern of the others.
            sinew::spawn(move || drop(session(stream, stay)));
        }
        Ok(())
    })
}

/// May's default stack is smaller than the session's buffer.
const COROUTINE_WORDS: usize = 0x2000;

#[allow(unsafe_code)]
fn coroutines(stay: Stay) -> io::Result<()> {
    may::config().set_workers(1).set_stack_size(COROUTINE_WORDS);
    // SAFETY: may asks that a coroutine keep no thread-local variable across a
    // suspension and not outgrow its stack; these are a few frames deep, with a buffer of
    // a kibibyte.
    let acceptor = unsafe {
        may::coroutine::spawn(move || {
            let listener = may::net::TcpListener::bind(ANYWHERE)?;
            announce(listener.local_addr())?;
            for stream in listener.incoming() {
                let stream = stream?;
                stream.set_nodelay(true)?;
                may::coroutine::spawn(move || drop(session(stream, stay)));
            }
            Ok(())
        })
    };
    acceptor.join().expect("an acceptor that does not panic")
}

fn threads(stay: Stay) -> io::Result<()> {
    let listener = std::net::TcpListener::bind(ANYWHERE)?;
    announce(listener.local_addr())?;
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        thread::Builder::new().stack_size(64 * 1024).spawn(move || drop(session(stream, stay)))?;
    }
    Ok(())
}

/// On the kernel thread that runs everything: faster than a multi-thread runtime with
/// one worker, which has to keep its tasks safe from others.
fn tasks(stay: Stay) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(ANYWHERE).await?;
        announce(listener.local_addr())?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move { drop(task(stream, stay).await) });
        }
    })
}

/// [`session`] as a task.
async fn task(mut stream: tokio::net::TcpStream, stay: Stay) -> io::Result<()> {
    let (mut buffer, mut filled) = ([0; ROOM], 0);
    loop {
        let count = stream.read(&mut buffer[filled..]).await?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let (asked, end) = requests(&buffer[..filled]);
        for _ in 0..asked {
            stream.write_all(stay.answer()).await?;
        }
        if asked > 0 && stay == Stay::Close {
            return Ok(());
        }
        buffer.copy_within(end..filled, 0);
        filled -= end;
        if filled == ROOM {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}
