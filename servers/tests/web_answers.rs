//! Answers of the web server.

mod site;

use site::{PATIENCE, Site, noise};
use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::Instant;

#[test]
fn a_connection_stays_open_until_the_client_wants_it_closed() {
    let serving = Site::new().file("index.html", "home").file("a.txt", "text").serve(&["--plaintext"]);
    let mut talk = serving.connect();
    let home = talk.ask("GET", "/", "");
    assert_eq!((home.status, home.text()), (200, "home"));
    assert_eq!(home.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(home.field("Connection"), None);
    assert!(home.field("Date").is_some_and(|date| date.ends_with(" GMT")));
    let hello = talk.ask("GET", "/plaintext", "");
    assert_eq!((hello.text(), hello.field("Content-Length")), ("Hello, World!", Some("13")));
    assert_eq!(talk.ask("HEAD", "/plaintext", "").field("Content-Length"), Some("13"));
    let last = talk.ask("GET", "/a.txt", "Connection: close\r\n");
    assert_eq!((last.text(), last.field("Connection")), ("text", Some("close")));
    assert!(talk.is_closed());
    let mut old = serving.connect();
    old.say("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(old.hear(true).field("Connection"), Some("keep-alive"));
    old.say("GET /a.txt HTTP/1.0\r\n\r\n");
    assert_eq!(old.hear(true).field("Connection"), Some("close"));
    assert!(old.is_closed());
}

#[test]
fn files_are_served_by_every_way_of_io() {
    let large = noise(1 << 20);
    for io in ["auto", "epoll", "ring"] {
        let serving =
            Site::new().file("a", "A").file("large", &large).file("list/b", "").serve(&["--list", "--io", io]);
        assert_eq!(serving.get("/a").text(), "A", "{io}");
        assert!(serving.get("/large").body == large, "{io}");
        assert_eq!(serving.get("/list/").status, 200, "{io}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let large = noise(200_000);
    let serving = Site::new().file("a", "A").file("b", noise(20_000)).file("c", &large).serve(&[
        "--plaintext",
        "--processors",
        "2",
    ]);
    let request = |target: &str| format!("GET /{target} HTTP/1.1\r\nHost: h\r\n\r\n");
    let targets = ["a", "plaintext", "b", "nothing", "c", "a"];
    let round: String = targets.iter().map(|target| request(target)).collect();
    let mut talk = serving.connect();
    let mut sender = talk.stream.try_clone().unwrap();
    // The client sends and receives at the same time: the requests are more than the buffers
    // between hold.
    let rounds = 30;
    let sending = std::thread::spawn(move || {
        for _ in 0..rounds {
            // The cuts fall anywhere, so that heads come in parts.
            for part in round.as_bytes().chunks(37) {
                std::io::Write::write_all(&mut sender, part).unwrap();
            }
        }
    });
    for _ in 0..rounds {
        let answers: Vec<_> = targets.iter().map(|_| talk.hear(true)).collect();
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 200, 404, 200, 200]);
        assert_eq!((answers[0].text(), answers[1].text()), ("A", "Hello, World!"));
        assert!(answers[2].body == noise(20_000) && answers[4].body == large);
    }
    sending.join().unwrap();
}

#[test]
fn small_pipelined_requests_are_answered_together() {
    let serving = Site::new().serve(&["--plaintext"]);
    let mut talk = serving.connect();
    talk.say("GET /plaintext HTTP/1.1\r\nHost: h\r\n\r\n".repeat(8));
    let mut buffer = [0; 16 * 1024];
    let count = std::io::Read::read(&mut talk.stream, &mut buffer).unwrap();
    assert_eq!(String::from_utf8_lossy(&buffer[..count]).matches("Hello, World!").count(), 8);
}

#[test]
fn only_get_head_and_options_are_allowed() {
    let serving = Site::new().file("a.txt", "text").serve(&[]);
    let mut talk = serving.connect();
    let head = talk.ask("HEAD", "/a.txt", "");
    assert_eq!((head.status, head.field("Content-Length"), head.body.len()), (200, Some("4"), 0));
    assert_eq!(talk.ask("HEAD", "/nothing", "").status, 404);
    for target in ["/a.txt", "*"] {
        let options = talk.ask("OPTIONS", target, "");
        assert_eq!((options.status, options.field("Allow")), (204, Some("GET, HEAD, OPTIONS")));
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        let answer = talk.ask(method, "/a.txt", "");
        assert_eq!((answer.status, answer.field("Allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
    }
    assert_eq!(talk.ask("BREW", "/a.txt", "").status, 501);
    assert!(talk.is_closed());
}

#[test]
fn a_version_that_the_client_has_is_not_sent_again() {
    let serving = Site::new().file("a.txt", "text").serve(&["--max-age", "60"]);
    let mut talk = serving.connect();
    let first = talk.ask("GET", "/a.txt", "");
    let (tag, modified) = (first.field("ETag").unwrap(), first.field("Last-Modified").unwrap());
    assert_eq!(first.field("Cache-Control"), Some("max-age=60"));
    let again = talk.ask("GET", "/a.txt", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((again.status, again.field("ETag"), again.field("Content-Length")), (304, Some(tag), None));
    assert_eq!(talk.ask("GET", "/a.txt", &format!("If-Modified-Since: {modified}\r\n")).status, 304);
    assert_eq!(talk.ask("GET", "/a.txt", "If-None-Match: \"other\"\r\n").text(), "text");
    assert_eq!(talk.ask("GET", "/a.txt", "If-Match: \"other\"\r\n").status, 412);
}

#[test]
fn ranges_are_sent_alone_or_together() {
    for size in [1000usize, 500_000] {
        let content = noise(size);
        let serving = Site::new().file("a.bin", &content).serve(&[]);
        let mut talk = serving.connect();
        let part = talk.ask("GET", "/a.bin", "Range: bytes=10-99\r\n");
        assert_eq!((part.status, &part.body[..]), (206, &content[10..100]));
        assert_eq!(part.field("Content-Range"), Some(&*format!("bytes 10-99/{size}")));
        assert_eq!(talk.ask("GET", "/a.bin", "Range: bytes=-5\r\n").body, content[size - 5..]);
        let nothing = talk.ask("GET", "/a.bin", &format!("Range: bytes={size}-\r\n"));
        assert_eq!((nothing.status, nothing.field("Content-Range")), (416, Some(&*format!("bytes */{size}"))));
        assert_eq!(talk.ask("GET", "/a.bin", "Range: bytes=0-1\r\nIf-Range: \"other\"\r\n").status, 200);
        assert_eq!(talk.ask("GET", "/a.bin", "Range: lines=0-1\r\n").body, content);
        let several = talk.ask("GET", "/a.bin", "Range: bytes=0-4,20-29,-3\r\n");
        assert_eq!(several.status, 206);
        let kind = several.field("Content-Type").unwrap();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut expected = Vec::new();
        for (range, first) in [(0..5, 0), (20..30, 20), (size - 3..size, size - 3)] {
            let last = range.end - 1;
            expected.extend_from_slice(
                format!(
                    "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\
                     Content-Range: bytes {first}-{last}/{size}\r\n\r\n"
                )
                .as_bytes(),
            );
            expected.extend_from_slice(&content[range]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert!(several.body == expected);
        assert_eq!(talk.ask("GET", "/a.bin", "").body, content);
    }
}

#[test]
fn compressed_forms_are_sent_to_clients_that_accept_them() {
    let site = Site::new().file("a.js", "plain").file("a.js.gz", "gzipped").file("a.js.br", "brotli").file("b.js", "b");
    let serving = site.serve(&[]);
    let mut talk = serving.connect();
    for (accepted, encoding, text) in [
        ("gzip", Some("gzip"), "gzipped"),
        ("gzip, deflate, br", Some("br"), "brotli"),
        ("br;q=0, gzip", Some("gzip"), "gzipped"),
        ("identity", None, "plain"),
    ] {
        let answer = talk.ask("GET", "/a.js", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!((answer.field("Content-Encoding"), answer.text()), (encoding, text), "{accepted}");
        assert_eq!(answer.field("Content-Type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(answer.field("Vary"), Some("Accept-Encoding"));
    }
    assert_eq!(talk.ask("GET", "/a.js", "").text(), "plain");
    assert_eq!(talk.ask("GET", "/b.js", "Accept-Encoding: gzip\r\n").field("Vary"), None);
}

#[test]
fn bodies_of_requests_are_read_and_discarded() {
    let serving = Site::new().file("a.txt", "text").serve(&["--max-body", "100000"]);
    let mut talk = serving.connect();
    talk.say(
        "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET /nothing HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    assert_eq!((talk.hear(true).status, talk.hear(true).status), (200, 404));
    talk.say("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    talk.say("lo\r\n0\r\nTrailer: x\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((talk.hear(true).status, talk.hear(true).status), (405, 200));
    talk.say(format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000)));
    assert_eq!(talk.hear(true).status, 405);
    talk.say("POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(talk.hear(true).status, 100);
    talk.say("hello");
    assert_eq!(talk.hear(true).status, 405);
    talk.say("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(talk.hear(true).status, 413);
    assert!(talk.is_closed());
    let mut endless = serving.connect();
    endless.say("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\n");
    assert_eq!(endless.hear(true).status, 413);
}

#[test]
fn a_refused_client_may_finish_sending() {
    let serving = Site::new().serve(&[]);
    for _ in 0..5 {
        let mut talk = serving.connect();
        talk.say("NONSENSE\r\n\r\n");
        // The answer has come. The server does not need the rest.
        assert_eq!(talk.stream.peek(&mut [0]).unwrap(), 1);
        for _ in 0..40 {
            talk.say(vec![b'x'; 100_000]);
        }
        assert_eq!(talk.hear(true).status, 400);
    }
    let mut endless = serving.connect();
    endless.say("NONSENSE\r\n\r\n");
    let begin = Instant::now();
    while endless.stream.write_all(&[b'x'; 100_000]).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "the server receives for ever");
    }
}

#[test]
fn each_client_error_has_its_own_status() {
    let serving = Site::new().file("dir/x", "").serve(&[]);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 400),
        ("GET /dir/ HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 403),
        ("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 404),
        ("GET /dir/x/ HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 404),
        ("GET /dir/x/y HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 404),
        ("DELETE /dir/x HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 405),
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(300)), 404),
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(9000)), 414),
        (format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(20_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(200)), 431),
        ("GET / HTTP/1.1\r\nHost: h\r\nExpect: nothing\r\n\r\n".to_owned(), 417),
        ("BREW / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 501),
        ("GET / HTTP/3.0\r\nHost: h\r\n\r\n".to_owned(), 505),
    ] {
        let mut talk = serving.connect();
        talk.say(&request);
        assert_eq!(talk.hear(true).status, status, "{}", &request[..request.len().min(60)]);
    }
}

#[test]
fn directories_have_a_slash_an_index_or_a_listing() {
    let site = Site::new().file("with/index.html", "index").file("without/b <&>.txt", "12345").file("without/a/x", "");
    fs::write(site.path("without/.secret"), "").unwrap();
    let serving = site.serve(&["--list"]);
    let moved = serving.get("/with?x=1");
    assert_eq!((moved.status, moved.field("Location")), (301, Some("/with/?x=1")));
    assert_eq!(serving.get("/with/").text(), "index");
    let listing = serving.get("/without/");
    assert_eq!(listing.field("Content-Type"), Some("text/html; charset=utf-8"));
    let page = listing.text();
    assert!(page.contains("<a href=\"./b%20%3C%26%3E.txt\">b &lt;&amp;&gt;.txt</a></td><td>5 B</td>"), "{page}");
    assert!(page.find("./a/").unwrap() < page.find("./b%20").unwrap() && !page.contains("secret"));
    assert!(page.contains("<a href=\"../\">../ (parent directory)</a>"), "{page}");
    assert!(
        serving.get("/without/a/").text().contains("<h1><a href=\"/\">/</a><a href=\"/without/\">without/</a>a/</h1>")
    );
    assert!(!serving.get("/").text().contains("href=\"../\""));
    assert_eq!(serving.get("/without/b%20%3C%26%3E.txt").text(), "12345");
}

/// HEAD has the fields of GET, and no body. The connection goes on.
#[test]
fn a_page_that_is_not_found_says_so_and_leads_on() {
    let serving = Site::new().file("dir/x", "").serve(&[]);
    let mut talk = serving.connect();
    let missing = talk.ask("GET", "/dir/%3Cb%3E?q", "");
    assert_eq!((missing.status, missing.field("Content-Type")), (404, Some("text/html; charset=utf-8")));
    let page = missing.text();
    assert!(page.contains("<code>/dir/&lt;b&gt;</code> is not on this server."), "{page}");
    assert!(page.contains("<a href=\"/dir/\">") && page.contains("<a href=\"/\">"), "{page}");
    let length = page.len().to_string();
    assert_eq!(missing.field("Content-Length"), Some(length.as_str()));
    let head = talk.ask("HEAD", "/dir/%3Cb%3E?q", "");
    assert_eq!((head.status, head.text()), (404, ""));
    assert_eq!(head.field("Content-Length"), Some(length.as_str()));
    assert_eq!(head.field("Content-Type"), Some("text/html; charset=utf-8"));
    let unlisted = talk.ask("GET", "/dir/", "");
    assert_eq!(unlisted.status, 403);
    assert!(unlisted.text().contains("<code>/dir/</code> is a directory without an index page."));
}

#[test]
fn each_request_has_a_line_in_the_log() {
    let site = Site::new().file("a.txt", "text");
    let log = site.above().join("log");
    let mut serving = site.serve(&["--log", log.to_str().unwrap()]);
    let mut talk = serving.connect();
    talk.ask("GET", "/a.txt", "User-Agent: \"me\"\r\nReferer: there\r\n");
    talk.ask("HEAD", "/nothing", "");
    talk.say("NONSENSE\r\n\r\n");
    talk.hear(true);
    serving.terminate();
    assert!(serving.wait().success());
    let text = fs::read_to_string(log).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split_once("] ").expect("a date").1).collect();
    let expected = [
        "\"GET /a.txt HTTP/1.1\" 200 4 \"there\" \"\\x22me\\x22\"",
        "\"HEAD /nothing HTTP/1.1\" 404 0 \"-\" \"-\"",
        "\"-\" 400 16 \"-\" \"-\"",
    ];
    assert_eq!(lines, expected);
    assert!(text.starts_with("127.0.0.1 - - ["));
}

#[test]
fn curl_gets_files_and_ranges() {
    let content = noise(3_000_000);
    let serving = Site::new().file("a.bin", &content).file("b.txt", "b").serve(&["--plaintext"]);
    let curl = |arguments: &[&str]| Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments).output();
    let Ok(output) = curl(&[&serving.url("/a.bin")]) else {
        eprintln!("skipped: curl is not installed");
        return;
    };
    assert!(output.status.success() && output.stdout == content);
    let output = curl(&["-r", "100-199", &serving.url("/a.bin")]).unwrap();
    assert!(output.stdout == content[100..200]);
    let urls = [serving.url("/b.txt"), serving.url("/plaintext"), serving.url("/b.txt")];
    let output = curl(&["-v", &urls[0], &urls[1], &urls[2]]).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "bHello, World!b");
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("Re-using existing connection").count(), 2);
    let upload = serving.site.path("a.bin");
    let posted = ["-T", upload.to_str().unwrap(), "-w", "%{http_code}", "-o", "/dev/null", "-H", "Expect:"];
    let output = curl(&[&posted[..], &[&serving.url("/x")]].concat()).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "413");
}
