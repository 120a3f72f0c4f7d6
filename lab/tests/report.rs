//! The report in a real browser: every plot has a size, on a wide screen and on a narrow one.
//! Without Chromium the test says that it skips this.

mod lab;

use std::path::Path;
use std::process::Command;

use lab::{Folder, command, stderr};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|browser| Command::new(browser).arg("--version").output().is_ok())
}

/// A script that writes into the page's title how the browser shows the plots.
const PROBE: &str = "<script>
addEventListener('load', () => {
  const plots = [...document.querySelectorAll('svg.plot')];
  const seen = plots.filter(svg => {
    const box = svg.getBoundingClientRect();
    const marks = svg.querySelectorAll('rect.bar, polyline.line, text.trouble');
    const painted = [...svg.querySelectorAll('rect.bar')].every(bar => getComputedStyle(bar).fill.startsWith('rgb'));
    const inside = [...svg.querySelectorAll('text')].every(text => {
      const own = text.getBoundingClientRect();
      return own.left >= box.left - 1 && own.right <= box.right + 1;
    });
    return box.width > 100 && box.height > 40 && marks.length > 0 && painted && inside;
  });
  const bad = plots.filter(svg => !seen.includes(svg)).map(svg => svg.getAttribute('aria-label'));
  const outside = performance.getEntriesByType('resource').length;
  const sections = document.querySelectorAll('section.experiment').length;
  const wide = document.documentElement.scrollWidth - innerWidth;
  const found = `PLOTS ${plots.length} GOOD ${seen.length} SECTIONS ${sections} OUTSIDE ${outside} BEYOND ${Math.max(wide, 0)} BAD ${bad.join('|')} END`;
  document.title = found;
  parent.postMessage(found, '*');
});
</script>";

/// The page as on a phone, in a frame: a browser without a screen has no window that narrow. It
/// takes over the title of the page.
const NARROW: &str = "<title></title><iframe src=\"index.html\" width=\"380\" height=\"900\"></iframe>
<script>addEventListener('message', event => { document.title = event.data; });</script>";

fn number(title: &str, name: &str) -> usize {
    let after = title.split_once(&format!("{name} ")).unwrap_or_else(|| panic!("{name} in {title}")).1;
    after.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name} in {title}"))
}

fn title_in(browser: &str, page: &Path) -> String {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", page.with_file_name("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("a browser");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.unwrap_or_else(|| panic!("no title in {dom}")).0.to_owned()
}

#[test]
fn a_browser_finds_every_plot() {
    let folder = Folder::new("report");
    let page = folder.path().join("index.html");
    let lab = command(&["run", "yield", "transfer", "memory", "timers", "utilisation", "--first-variant"])
        .args(["--peers", "sinew,tokio,threads", "--processors", "2", "--seconds", "0.02", "--repeat", "1"])
        .args(["--limit", "1", "--report"])
        .arg(folder.path())
        .output()
        .expect("the lab");
    assert!(lab.status.success(), "{}", stderr(&lab));
    let html = std::fs::read_to_string(&page).expect("a page");
    let plots = html.matches("<svg class=\"plot\"").count();
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "the page needs {outside}");
    }
    for part in [
        // The summary comes first, then the caveat, the words and the runs.
        "<section id=\"summary\">",
        "<th>Verdict</th>",
        "its load was",
        "<dt>strand</dt>",
        "one run each, no median",
        "sinew/default",
    ] {
        assert!(html.contains(part), "no {part}");
    }
    assert!(html.find("its load was") < html.find("<section class=\"experiment\""), "the caveat is at the top");
    // Where a plot has peers, the default runtime is the first of them.
    let plots_of_peers = html.split("<svg class=\"plot\"").skip(1).filter(|plot| plot.contains("class=\"name\""));
    for plot in plots_of_peers {
        let first = plot.split("class=\"name\">").nth(1).expect("a name");
        assert!(first.starts_with("sinew/default<"), "{plot}");
    }
    // yield, transfer twice, memory, timers, utilisation.
    assert_eq!(plots, 6);
    match browser() {
        None => eprintln!("skipped: no browser is installed"),
        Some(browser) => {
            std::fs::write(&page, html.replace("</body>", &format!("{PROBE}</body>"))).expect("a page");
            let narrow = folder.path().join("narrow.html");
            std::fs::write(&narrow, NARROW).expect("a page");
            for page in [&page, &narrow] {
                let title = title_in(browser, page);
                assert_eq!((number(&title, "PLOTS"), number(&title, "GOOD")), (plots, plots), "{title}");
                assert_eq!((number(&title, "SECTIONS"), number(&title, "OUTSIDE")), (5, 0), "{title}");
                assert_eq!(number(&title, "BEYOND"), 0, "{} is too narrow: {title}", page.display());
            }
        }
    }
}
