//! `docs/works-with.md`: each test that it names exists.

use std::path::Path;

/// Returns the names in the columns `test` of the chapter's tables, as `(file, function)`.
fn named(chapter: &str) -> Vec<(&str, &str)> {
    let (mut named, mut is_wanted) = (Vec::new(), false);
    for line in chapter.lines() {
        let cell = line.strip_prefix('|').and_then(|line| line.strip_suffix(" |")?.rsplit("| ").next());
        match cell {
            None => is_wanted = false,
            Some("test") => is_wanted = true,
            Some("---") => {}
            Some(cell) if is_wanted => {
                let name = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')?.split_once("::"));
                named.push(name.unwrap_or_else(|| panic!("a row without a test: {line}")));
            }
            Some(_) => {}
        }
    }
    named
}

#[test]
fn each_test_that_the_chapter_names_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let chapter = std::fs::read_to_string(here.join("../docs/works-with.md")).unwrap();
    let named = named(&chapter);
    assert!(named.len() > 30, "the chapter names {} tests", named.len());
    for (file, function) in named {
        let path = here.join("tests").join(file).with_extension("rs");
        let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(source.contains(&format!("#[test]\nfn {function}() {{")), "{file} has no test {function}");
    }
}
