//! `docs/guide` and the README: each chapter is listed and run, and each link leads to a file.

use std::fs;
use std::path::{Path, PathBuf};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the pages of the guide, without the table of contents.
fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(project().join("docs/guide/src")).unwrap();
    let pages: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|page| !page.ends_with("SUMMARY.md")).collect();
    assert!(pages.len() > 8, "the guide has {} pages", pages.len());
    pages
}

/// Returns the targets of the links in Markdown text, without those in blocks of code.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1));
    targets.map(|target| target.split([')', '#']).next().unwrap()).filter(|target| !target.contains("://")).collect()
}

#[test]
fn each_page_of_the_guide_is_listed_and_run() {
    let contents = text(&project().join("docs/guide/src/SUMMARY.md"));
    let run = text(&project().join("works-with/src/lib.rs"));
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(contents.contains(&format!("]({name})")), "the table of contents does not list {name}");
        assert!(run.contains(&format!("include_str!(\"../../docs/guide/src/{name}\")")), "nothing runs {name}");
    }
}

#[test]
fn each_link_leads_to_a_file() {
    let others = ["README.md", "docs/guide/src/SUMMARY.md"].map(|path| project().join(path));
    let mut found = 0;
    for page in pages().into_iter().chain(others) {
        let text = text(&page);
        let links = links(&text);
        found += links.len();
        for link in links {
            let target = page.with_file_name(link);
            assert!(target.exists(), "{}: {link} is not there", page.display());
        }
    }
    assert!(found > 30, "there are {found} links");
}
