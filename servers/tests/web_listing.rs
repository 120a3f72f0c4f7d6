//! Listings of large directories.

mod site;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, socket};
use site::{Serving, Site, Talk, eventually};
use std::fs;
use std::net::TcpStream;

/// Returns a name of the greatest length. Its last bytes take four bytes each in a page.
fn name(number: usize) -> String {
    format!("{number:05}{}", "<".repeat(250))
}

fn with_names(count: usize) -> Site {
    let site = Site::new().file("small", "S");
    fs::create_dir(site.path("large")).expect("a directory");
    (0..count).for_each(|number| fs::write(site.path("large").join(name(number)), "").expect("a file"));
    site
}

fn begin(talk: &mut Talk, target: &str) -> String {
    talk.say(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    talk.hear_head()
}

/// Connects with a small receive buffer, so that the kernel buffers little at both ends.
fn connect(serving: &Serving) -> Talk {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    set_socket_recv_buffer_size(&socket, 4096).expect("a small buffer");
    rustix::net::connect(&socket, &serving.address).expect("a connection");
    Talk::over(TcpStream::from(socket))
}

/// Reads a page to its end, with a large buffer.
fn read_on(talk: &mut Talk) -> String {
    set_socket_recv_buffer_size(&talk.stream, 1 << 20).expect("a large buffer");
    String::from_utf8_lossy(&talk.hear_chunks()).into_owned()
}

/// Returns the numbers of the names in a page, in the order of the page.
fn numbers(page: &str) -> Vec<usize> {
    page.split("href=\"./").skip(1).map(|rest| rest[..5].parse().expect("a number")).collect()
}

#[test]
fn a_large_listing_is_complete_and_sorted_with_and_without_chunks() {
    let count = 6000;
    let site = Site::new().file("small", "S");
    (0..count).for_each(|number| site.put(&format!("large/{number:05}"), ""));
    let serving = site.serve(&["--list"]);
    let mut talk = serving.connect();
    let page = talk.ask("GET", "/large/", "");
    assert_eq!((page.field("Transfer-Encoding"), page.field("Content-Length")), (Some("chunked"), None));
    assert_eq!(numbers(page.text()), (0..count).collect::<Vec<_>>());
    assert!(page.text().ends_with("<footer>6000 entries</footer>\n</body>\n</html>\n"));
    // The connection stays open.
    assert_eq!(talk.ask("GET", "/small", "").text(), "S");
    let head = talk.ask("HEAD", "/large/", "");
    assert_eq!((head.status, head.field("Content-Type")), (200, page.field("Content-Type")));
    assert_eq!(talk.ask("GET", "/small", "").text(), "S");
    // Without chunks the connection cannot stay open.
    let mut old = serving.connect();
    old.say("GET /large/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let head = old.hear_head();
    assert!(head.contains("Connection: close\r\n") && !head.contains("chunked"), "{head}");
    assert!(old.hear_all() == page.body);
}

#[test]
fn slow_readers_of_a_large_listing_hold_no_memory_for_it() {
    let serving = with_names(3000).serve(&["--list", "--send-timeout", "600"]);
    assert_eq!(serving.get("/large/").status, 200);
    let before = serving.resident();
    let mut slow: Vec<Talk> = (0..16).map(|_| connect(&serving)).collect();
    // A page has about 5 MB, more than the kernel buffers.
    slow.iter_mut().for_each(|talk| assert!(begin(talk, "/large/").starts_with("HTTP/1.1 200 ")));
    let taken = serving.resident().saturating_sub(before);
    assert!(taken < 32 << 20, "{taken} bytes");
    for mut talk in slow.into_iter().take(2) {
        assert_eq!(numbers(&read_on(&mut talk)), (0..3000).collect::<Vec<_>>());
    }
}

/// Returns the bytes of an answer that the kernel buffers at both ends of a connection.
fn queued(talk: &Talk) -> u64 {
    let (ours, theirs) = (talk.stream.local_addr().expect("ours"), talk.stream.peer_addr().expect("theirs"));
    let (ours, theirs) = (format!(":{:04X}", ours.port()), format!(":{:04X}", theirs.port()));
    let table = fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let ends = rows.filter(|row| {
        let is = |from: &str, to: &str| row[1].ends_with(from) && row[2].ends_with(to);
        is(&ours, &theirs) || is(&theirs, &ours)
    });
    let parts = ends.flat_map(|row| row[4].split(':').map(str::to_owned).collect::<Vec<_>>());
    parts.map(|part| u64::from_str_radix(&part, 16).expect("a number")).sum()
}

/// Returns a server, and a client that has asked for a large listing and does not read it. The
/// server waits for this client, and keeps the names of that directory no longer.
fn with_slow_reader(count: usize) -> (Serving, Talk) {
    let site = with_names(count);
    (0..40).for_each(|number| fs::create_dir(site.path(&format!("other{number}"))).expect("a directory"));
    let serving = site.serve(&["--list", "--threads", "1", "--send-timeout", "600"]);
    let mut slow = connect(&serving);
    begin(&mut slow, "/large/");
    // A session that does not wait for its client runs while others are answered.
    eventually("the session waits for its client", || {
        let before = queued(&slow);
        (0..10).for_each(|_| assert_eq!(serving.get("/small").text(), "S"));
        queued(&slow) == before
    });
    // These are more directories than the server keeps.
    (0..40).for_each(|number| assert_eq!(serving.get(&format!("/other{number}/")).status, 200));
    (serving, slow)
}

#[test]
fn a_listing_whose_directory_vanishes_says_so_and_ends() {
    let (serving, mut talk) = with_slow_reader(3000);
    fs::rename(serving.site.path("large"), serving.site.above().join("gone")).expect("rename");
    let page = read_on(&mut talk);
    assert!(page.contains(" entries, and then the directory could not be read any more</footer>"));
    let shown = numbers(&page);
    assert!(shown.len() < 3000 && shown == (0..shown.len()).collect::<Vec<_>>());
    assert_eq!(talk.ask("GET", "/small", "").text(), "S");
    assert_eq!(talk.ask("GET", "/large/", "").status, 404);
}

#[test]
fn a_listing_whose_directory_changes_shows_no_name_twice() {
    let (serving, mut talk) = with_slow_reader(3000);
    let large = serving.site.path("large");
    (0..3000).step_by(2).for_each(|number| fs::remove_file(large.join(name(number))).expect("remove"));
    let shown = numbers(&read_on(&mut talk));
    assert!(shown.is_sorted_by(|one, other| one < other));
    assert!(
        (1..3000).step_by(2).all(|number| shown.binary_search(&number).is_ok()),
        "a name that was not removed is missing"
    );
    assert!(shown.len() < 3000, "removed names are listed");
}

#[test]
fn a_new_name_is_listed_after_about_a_second() {
    let serving = with_names(1).serve(&["--list"]);
    assert_eq!(numbers(serving.get("/large/").text()), [0]);
    fs::write(serving.site.path("large").join(name(7)), "").expect("a file");
    eventually("the new name is listed", || numbers(serving.get("/large/").text()) == [0, 7]);
}
