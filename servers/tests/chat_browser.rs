//! Two people chat with the server's own page, in a real browser.

mod browser;
mod parlour;

use browser::{Browser, Page};
use parlour::Parlour;
use serde_json::json;
use std::process::{Command, Stdio};

const WIDE: (u32, u32) = (1200, 760);
const PHONE: (u32, u32) = (390, 780);

const HOSTILE: &str = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>&lt;b&gt;";

/// Enters the chat with the keyboard alone.
fn enter(browser: &mut Browser, parlour: &Parlour, name: &str, size: (u32, u32)) -> Page {
    let page = browser.open(&format!("http://{}/#tea", parlour.address), size);
    browser.wait_for(&page, "document.readyState === 'complete' && document.activeElement.id === 'name'");
    browser.type_text(&page, name);
    browser.press(&page, "Enter");
    browser.wait_for(&page, "document.getElementById('title').textContent === '# tea'");
    page
}

fn write(browser: &mut Browser, page: &Page, text: &str) {
    browser.wait_for(page, "document.activeElement.id === 'text'");
    browser.type_text(page, text);
    browser.press(page, "Enter");
}

/// Returns an expression that is true when the log of a page shows a message as text.
fn shows(text: &str) -> String {
    format!(
        "[...document.querySelectorAll('.message:not(.pending) .text')].some(text => text.textContent === {})",
        json!(text)
    )
}

#[test]
fn two_people_chat_in_a_browser() {
    let Some(mut browser) = Browser::start("chat") else { return };
    let browser = &mut browser;
    let parlour = Parlour::open(&[]);
    let ada = enter(browser, &parlour, "Ada", WIDE);
    browser.picture(&ada, "empty");
    let ben = enter(browser, &parlour, "ben", PHONE);
    browser.wait_for(&ada, "document.getElementById('log').textContent.includes('ben has joined')");
    browser.wait_for(&ada, "document.getElementById('count').textContent === '2 members'");
    write(browser, &ada, "Good morning, ben! Is the kettle on?");
    browser.wait_for(&ben, &shows("Good morning, ben! Is the kettle on?"));
    write(browser, &ben, "It is. Two minutes.\u{1f375}");
    browser.wait_for(&ada, &shows("It is. Two minutes.\u{1f375}"));

    // Hostile text is text.
    write(browser, &ben, HOSTILE);
    for page in [&ada, &ben] {
        browser.wait_for(page, &shows(HOSTILE));
        assert_eq!(browser.evaluate(page, "document.querySelectorAll('#log img, #log script, #log b').length"), 0);
        assert_eq!(browser.evaluate(page, "document.title.includes('owned')"), false);
    }

    // A direct message: Ada chooses ben from the members.
    let choose =
        "[...document.querySelectorAll('#members button')].find(row => row.textContent.includes('ben')).click()";
    browser.evaluate(&ada, choose);
    browser.wait_for(&ada, "document.getElementById('title').textContent === 'ben'");
    write(browser, &ada, "psst");
    browser.wait_for(&ada, &shows("psst"));
    browser.wait_for(&ben, "!document.getElementById('elsewhere').hidden");
    browser.show(&ben);
    browser.evaluate(&ben, "document.getElementById('open-rooms').click()");
    browser.wait_for(&ben, "document.querySelector('#people .badge').textContent === '1'");
    // The pane slides in.
    browser.wait_for(&ben, "document.getElementById('rooms-pane').getBoundingClientRect().left === 0");
    browser.picture(&ben, "phone-rooms");
    browser.evaluate(&ben, "document.querySelector('#people button').click()");
    browser.wait_for(&ben, &shows("psst"));

    // A name that is taken.
    let eve = browser.open(&format!("http://{}/", parlour.address), WIDE);
    browser.wait_for(&eve, "document.activeElement.id === 'name'");
    browser.type_text(&eve, "ADA");
    browser.press(&eve, "Enter");
    browser.wait_for(&eve, "document.getElementById('door-error').textContent.includes('has this name')");
    browser.picture(&eve, "taken");

    browser.evaluate(&ada, "document.querySelector('#rooms button').click()");
    browser.picture(&ada, "wide");
    browser.show(&ben);
    browser.evaluate(&ben, "document.querySelector('#rooms button').click()");
    browser.wait_for(&ben, "document.getElementById('rooms-pane').getBoundingClientRect().right <= 0");
    browser.picture(&ben, "phone");
    browser.darken(&ada);
    browser.picture(&ada, "wide-dark");
    assert_eq!(
        browser.evaluate(&ben, "document.documentElement.scrollWidth <= innerWidth"),
        true,
        "no sideways scrolling"
    );
}

/// The server ends, and comes back at the same address. The page says so, and goes on by itself.
#[test]
fn the_page_reconnects() {
    let Some(mut browser) = Browser::start("reconnects") else { return };
    let browser = &mut browser;
    let parlour = Parlour::open(&[]);
    let address = parlour.address.to_string();
    let ada = enter(browser, &parlour, "Ada", WIDE);
    write(browser, &ada, "before");
    browser.wait_for(&ada, &shows("before"));
    parlour.terminate();
    let (status, _) = parlour.wait();
    assert!(status.success());
    browser.wait_for(&ada, "document.getElementById('banner-text').textContent.includes('goodbye')");
    browser.wait_for(&ada, "document.getElementById('status').textContent === 'not connected'");
    browser.picture(&ada, "broken");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.args(["chat", "--listen", &address]).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = parlour::Process::start(&mut command).expect("the binary of this package");
    browser.wait_for(&ada, "document.getElementById('status').textContent === 'connected'");
    browser.wait_for(&ada, "document.getElementById('banner').hidden");
    browser.wait_for(&ada, "!document.querySelector('#write-form button').disabled");
    write(browser, &ada, "after");
    browser.wait_for(&ada, &shows("after"));
    assert_eq!(browser.evaluate(&ada, &shows("before")), true, "what was there is still there");
}
