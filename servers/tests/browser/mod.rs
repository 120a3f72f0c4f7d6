//! A real browser without a window, driven by its DevTools protocol.

use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tungstenite::{Message, WebSocket};

/// The longest time that a test waits for the browser.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running browser. It ends when this value is dropped.
pub struct Browser {
    child: Child,
    home: PathBuf,
    socket: WebSocket<TcpStream>,
    last: u64,
}

/// A page in a browser, by the number of its session.
#[derive(Clone)]
pub struct Page(String);

impl Browser {
    /// Starts a browser. Returns `None`, and prints a word, if there is none or it does not run here.
    pub fn start(name: &str) -> Option<Browser> {
        let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        });
        let Some(browser) = found else {
            eprintln!("skipped: no chromium is installed");
            return None;
        };
        let home = std::env::temp_dir().join(format!("sinew-browser-{name}-{}", std::process::id()));
        let mut command = Command::new(browser);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]);
        // A page that is not shown draws nothing, and what slides in it stays where it is.
        command.arg("--force-prefers-reduced-motion");
        command.args(["--remote-debugging-port=0", "about:blank"]).arg(format!("--user-data-dir={}", home.display()));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let begin = Instant::now();
        let place = loop {
            // The file has the port, and the path of the WebSocket.
            let text = std::fs::read_to_string(home.join("DevToolsActivePort")).unwrap_or_default();
            if let Some((port, path)) = text.trim().split_once('\n') {
                break (port.parse::<u16>().ok()?, path.to_owned());
            }
            if begin.elapsed() > PATIENCE || child.try_wait().is_ok_and(|ended| ended.is_some()) {
                eprintln!("skipped: the browser does not run here");
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let stream = TcpStream::connect(("127.0.0.1", place.0)).expect("the browser");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        let url = format!("ws://127.0.0.1:{}{}", place.0, place.1);
        let (socket, _) = tungstenite::client(url, stream).expect("a handshake");
        Some(Browser { child, home, socket, last: 0 })
    }

    /// Gives an order, and returns its result.
    fn order(&mut self, page: Option<&Page>, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut order = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(Page(session)) = page {
            order["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(order.to_string())).expect("send");
        loop {
            let Message::Text(text) = self.socket.read().expect("an answer") else { continue };
            let mut answer: Value = serde_json::from_str(&text).expect("JSON");
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// Opens a page of this size.
    pub fn open(&mut self, url: &str, (width, height): (u32, u32)) -> Page {
        let target = self.order(None, "Target.createTarget", json!({ "url": "about:blank" }))["targetId"].take();
        let attached = self.order(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        let page = Page(attached["sessionId"].as_str().expect("a session").to_owned());
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.order(Some(&page), "Emulation.setDeviceMetricsOverride", size);
        self.order(Some(&page), "Page.navigate", json!({ "url": url }));
        page
    }

    /// Lets the page believe that its user wants dark colours.
    pub fn darken(&mut self, page: &Page) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
        self.order(Some(page), "Emulation.setEmulatedMedia", features);
    }

    /// Evaluates an expression in the page.
    pub fn evaluate(&mut self, page: &Page, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.order(Some(page), "Runtime.evaluate", asked);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_for(&mut self, page: &Page, expression: &str) {
        let begin = Instant::now();
        // The page may be on its way.
        let guarded = format!("(() => {{ try {{ return !!({expression}) }} catch (error) {{ return false }} }})()");
        while self.evaluate(page, &guarded) != json!(true) {
            if begin.elapsed() > PATIENCE {
                let seen = self.evaluate(page, "document.body.innerText");
                panic!("never true: {expression}; the page shows: {seen}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types text into what has the focus.
    pub fn type_text(&mut self, page: &Page, text: &str) {
        self.order(Some(page), "Input.insertText", json!({ "text": text }));
    }

    /// Presses and releases a key.
    pub fn press(&mut self, page: &Page, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            _ => 0,
        };
        let mut event =
            json!({ "type": "keyDown", "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code });
        self.order(Some(page), "Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.order(Some(page), "Input.dispatchKeyEvent", event);
    }

    /// Brings a page to the front. Only there it is drawn, and moves.
    pub fn show(&mut self, page: &Page) {
        self.order(Some(page), "Page.bringToFront", json!({}));
    }

    /// Writes a picture of the page to the directory that `SCREENSHOTS` names, if it does.
    pub fn picture(&mut self, page: &Page, name: &str) {
        let Ok(folder) = std::env::var("SCREENSHOTS") else { return };
        self.show(page);
        let picture = self.order(Some(page), "Page.captureScreenshot", json!({}))["data"].take();
        let file = std::fs::File::create(format!("{folder}/{name}.png")).expect("a file");
        let mut decoder = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(file).spawn().expect("base64");
        let mut input = decoder.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut input, picture.as_str().expect("text").as_bytes()).expect("a picture");
        drop(input);
        assert!(decoder.wait().expect("base64").success());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}
