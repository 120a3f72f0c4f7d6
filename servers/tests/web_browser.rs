//! A real browser loads a page with many files.

mod site;

use site::{PATIENCE, Site, noise};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

const SCRIPTS: usize = 40;
const IMAGES: usize = 40;

/// A grey pixel.
const PIXEL: &[u8] =
    b"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"><rect width=\"1\" height=\"1\"/></svg>";

#[test]
fn a_browser_loads_a_page_with_many_files() {
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok());
    let Some(browser) = browser else {
        eprintln!("skipped: no chromium is installed");
        return;
    };
    let mut page =
        "<!DOCTYPE html><title>loading</title><link rel=stylesheet href=style.css><p id=out>nothing".to_owned();
    let mut site = Site::new().file("style.css", "p { width: 321px }").file("large.bin", noise(700_000));
    page += "<script>let scripts = 0, pictures = 0</script>";
    for number in 0..SCRIPTS {
        site = site.file(&format!("scripts/{number}.js"), format!("scripts += 1; // {number}"));
        page += &format!("<script src=scripts/{number}.js></script>");
    }
    for number in 0..IMAGES {
        site = site.file(&format!("images/{number}.svg"), PIXEL);
        page += &format!("<img onload='pictures += 1' src=images/{number}.svg>");
    }
    page += "<script>onload = async () => {
        const large = await (await fetch('large.bin')).arrayBuffer();
        const part = await fetch('large.bin', { headers: { Range: 'bytes=1-10' } });
        const width = getComputedStyle(document.getElementById('out')).width;
        const words = [scripts, pictures, large.byteLength, part.status, (await part.arrayBuffer()).byteLength, width];
        document.getElementById('out').textContent = 'loaded ' + words.join(' ');
    }</script>";
    let serving = site.file("index.html", page).serve(&[]);
    let home = serving.site.above().join("browser");
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.args(["--disable-dev-shm-usage", "--virtual-time-budget=15000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", home.display())).arg(serving.url("/"));
    let output = serving.site.above().join("dom");
    command.stdout(fs::File::create(&output).unwrap()).stderr(Stdio::null()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() && begin.elapsed() < 3 * PATIENCE {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The browser may have ended already.
    let _ = child.kill();
    let _ = child.wait();
    let dom = fs::read_to_string(output).unwrap();
    if dom.is_empty() {
        eprintln!("skipped: the browser does not run here");
        return;
    }
    assert!(dom.contains(&format!("loaded {SCRIPTS} {IMAGES} 700000 206 10 321px")), "{dom}");
}
