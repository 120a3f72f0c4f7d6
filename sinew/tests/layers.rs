//! Modules use only what lies below them.
//!
//! The table of layers is the one in `docs/architecture.md`, lowest first. A module may use the
//! modules of the rows above its own. It may not use the other modules of its row.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the crate uses everything, and a model may build whatever it needs.
const EXEMPT: [&str; 2] = ["lib.rs", "models"];

/// Reads the table: the number of the row for each module.
fn layers(document: &str) -> HashMap<String, usize> {
    let after = document.split("## Layers").nth(1).expect("a section with the layers");
    let table = after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let rows = table.skip(2);
    let modules = rows.enumerate().flat_map(|(row, line)| {
        let cell = line.split('|').nth(2).expect("a second column");
        let names = cell.split('`').skip(1).step_by(2);
        names.map(|name| (name.to_owned(), row)).collect::<Vec<_>>()
    });
    modules.collect()
}

/// The source without comments, and without what only tests compile.
fn code(source: &str) -> String {
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(all(test, not(sinew_loom)))]\nmod "];
    let end = tests.iter().filter_map(|start| source.find(start)).min().unwrap_or(source.len());
    let lines = source[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths that a `use` tree names, each from its first segment on.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else { return vec![tree.to_owned()] };
    let close = tree.rfind('}').expect("a brace that closes");
    let (mut depth, mut parts, mut part) = (0, Vec::new(), String::new());
    for letter in tree[open + 1..close].chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    let prefix = &tree[..open];
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expand(part).into_iter().map(move |rest| format!("{prefix}{rest}"))).collect()
}

/// The names that come first behind the crate's root, in `source`, whose module is `depth` deep.
fn used(source: &str, depth: usize) -> Vec<String> {
    let code = code(source);
    let mut roots = vec!["crate::".to_owned()];
    roots.push("super::".repeat(depth));
    let mut names = Vec::new();
    for root in roots {
        let mut rest = code.as_str();
        while let Some(at) = rest.find(&root) {
            let before = rest[..at].chars().next_back();
            let path = &rest[at + root.len()..];
            rest = path;
            // `$crate` is for those who use a macro; a longer chain of `super` was found before.
            if matches!(before, Some('$' | ':')) || before.is_some_and(|letter| letter.is_alphanumeric()) {
                continue;
            }
            let tree: String = if path.starts_with('{') {
                path[..path.find(';').unwrap_or(path.len())].to_owned()
            } else {
                path.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
            };
            let first = |path: &String| path.split("::").next().unwrap_or_default().trim().to_owned();
            names.extend(expand(&tree).iter().map(first));
        }
    }
    names
}

/// What is wrong with the paths in `source`, a file of the module `module`.
fn faults(layers: &HashMap<String, usize>, module: &str, source: &str, depth: usize) -> Vec<String> {
    let Some(own) = layers.get(module) else { return vec![format!("`{module}` is in no layer")] };
    let used = BTreeSet::from_iter(used(source, depth)).into_iter().filter(|name| name != module);
    used.filter_map(|name| match layers.get(&name) {
        Some(row) if row < own => None,
        Some(_) => Some(format!("`{module}` uses `{name}`, which does not lie below it")),
        None => Some(format!("`{module}` uses `crate::{name}`: name the module that has it")),
    })
    .collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if EXEMPT.iter().any(|exempt| name.trim_end_matches(".rs") == exempt.trim_end_matches(".rs")) {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

fn table() -> HashMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    layers(&fs::read_to_string(root.join("../docs/architecture.md")).unwrap())
}

#[test]
fn every_module_uses_only_what_lies_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layers = table();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut all = Vec::new();
    for file in &files {
        let path = file.strip_prefix(&root).unwrap().with_extension("");
        let mut names: Vec<_> = path.iter().map(|name| name.to_str().unwrap()).collect();
        names.retain(|name| *name != "mod");
        let source = fs::read_to_string(file).unwrap();
        let faults = faults(&layers, names[0], &source, names.len());
        all.extend(faults.into_iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    assert!(files.len() > 50, "the sources were found");
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn every_module_of_the_table_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for module in table().into_keys() {
        assert!(root.join(&module).is_dir() || root.join(format!("{module}.rs")).is_file(), "`{module}`");
    }
}

#[test]
fn a_line_that_points_up_is_found() {
    let layers =
        HashMap::from([("base".to_owned(), 0), ("fibre".to_owned(), 1), ("task".to_owned(), 1), ("net".to_owned(), 2)]);
    let count = |module: &str, source: &str| faults(&layers, module, source, 2).len();
    assert_eq!(count("net", "use crate::base::clock;\nuse crate::{fibre, task::{self, spawn}};"), 0);
    assert_eq!(count("base", "use crate::net::TcpStream;"), 1);
    assert_eq!(count("base", "fn f() { crate::net::listen() }"), 1);
    assert_eq!(count("base", "use crate::{base::clock, fibre::{self, spawn}, net};"), 2);
    assert_eq!(count("fibre", "use crate::task::spawn;"), 1, "nor beside");
    assert_eq!(count("fibre", "use super::super::net;"), 1, "by `super` neither");
    assert_eq!(count("fibre", "use super::record::Record;"), 0);
    assert_eq!(count("fibre", "use crate::spawn;"), 1, "the root has everything");
    assert_eq!(count("base", "// crate::net\n/// [`x`](crate::net)\nmacro_rules! m { () => { $crate::net::f() } }"), 0);
    assert_eq!(count("base", "#[cfg(test)]\nmod tests {\n    use crate::net;\n}"), 0);
    assert_eq!(count("nowhere", ""), 1);
}
