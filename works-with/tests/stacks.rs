//! The default stack is large enough for what programs do on their first day, in a debug build, too.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use fixture::{Setup, wherever};

/// One set-up is enough: the stack is the same in all of them.
fn is_first(setup: &Setup) -> bool {
    Setup::all().next().is_some_and(|first| first == *setup)
}

#[test]
fn a_regular_expression_is_compiled_on_the_default_stack() {
    wherever(is_first, |rt, _| {
        let matches = rt.run(|| {
            let pattern =
                r"(?i)^(?P<user>[\w.+-]{1,64})@(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,})$";
            let address = regex::Regex::new(pattern).unwrap();
            let parts = address.captures("Ada.Lovelace@analytical.engine.example").unwrap();
            (parts["user"].to_owned(), parts["host"].to_owned())
        });
        assert_eq!(matches, ("Ada.Lovelace".to_owned(), "analytical.engine.example".to_owned()));
    });
}

#[test]
fn deeply_nested_json_is_read_on_the_default_stack() {
    /// serde_json allows 127. In a debug build these take 244 KiB of the stack, with rustc 1.95.
    const DEPTH: usize = 100;
    wherever(is_first, |rt, _| {
        let depth = rt.run(|| {
            let text = format!("{}1{}", r#"{"a":"#.repeat(DEPTH), "}".repeat(DEPTH));
            let mut value: &serde_json::Value = &serde_json::from_str(&text).unwrap();
            let mut depth = 0;
            while let Some(inner) = value.get("a") {
                (value, depth) = (inner, depth + 1);
            }
            depth
        });
        assert_eq!(depth, DEPTH);
    });
}
