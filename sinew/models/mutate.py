#!/usr/bin/env python3
"""Weakens one memory ordering at a time and expects a model to fail.

    sinew/models/mutate.py                       every file that uses base::atomic or base::fence
    sinew/models/mutate.py sync/raw_mutex.rs     these files (or folders) of sinew/src
    sinew/models/mutate.py --list sync           what would be weakened; builds nothing
    sinew/models/mutate.py --unlisted sync       only what survivors.txt does not list
    sinew/models/mutate.py --name "lock swap" base/spin.rs     only weakenings with this name

A weakening that no model notices is a survivor. Either the ordering is stronger than the
protocol needs, or a model is missing. Survivors that are right are listed in `survivors.txt`
beside this file, each with its reason. The exit code is 1 if there is another survivor, or if a
line of that list is wrong.

The script works on a copy of the tree under target/mutate. There it replaces each ordering by
a call that returns the weaker one when the environment names its number. So one build, which is
incremental, has all weakenings. A weakening runs the models of the file's own folder first, then
those of the folders above, then all others, until one fails. In each group the shortest model
comes first. The script runs each model once without a weakening, to see how long it takes and
which orderings it comes to. It keeps that until the sources change, and leaves out models that
do not come to the weakened ordering.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path("sinew/src")
SURVIVORS = Path(__file__).with_name("survivors.txt")
WORK = ROOT / "target/mutate"
TREE = WORK / "tree"

# How long a model may take with a weaker ordering: a multiple of what it takes without one,
# and at least this number of seconds. A model that takes longer has decided nothing.
PATIENCE = 6
LEAST_PATIENCE_S = 30

ORDERING = re.compile(r"(?<![\w:])(?:(?:crate::base::)?atomic::|Ordering::)?(Acquire|Release|AcqRel|SeqCst)\b")
FENCE_CALL = re.compile(r"(?<![\w:])(?:crate::base::)?fence::(light|heavy)\(\)")
FUNCTION = re.compile(r"\bfn (\w+)")
LEFT_OUT = re.compile(r"#\[cfg\((?:not\(sinew_loom\)|all\(test, not\(sinew_loom\)\))\)\]")
USES_ATOMICS = re.compile(r"(?:crate::base|super)::(?:atomic|fence)\b")
USE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))? )?use [^;]*;", re.M)

# Added to the copy of ATOMIC. A site writes its number into the file that the
# environment names, so that the script knows which model comes to it.
ATOMIC = "base/atomic.rs"
PROBE = """
#[cfg(sinew_loom)]
pub(crate) mod weakened {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::OnceLock;

    static REACHED: [AtomicBool; %d] = [const { AtomicBool::new(false) }; %d];

    pub(crate) fn is(number: usize) -> bool {
        static CHOSEN: OnceLock<(Option<usize>, Option<String>)> = OnceLock::new();
        let (chosen, log) = CHOSEN.get_or_init(|| {
            let chosen = std::env::var("SINEW_WEAKENED").ok().and_then(|number| number.parse().ok());
            (chosen, std::env::var("SINEW_REACHED").ok())
        });
        if let Some(log) = log
            && !REACHED[number].swap(true, Ordering::Relaxed)
        {
            use std::io::Write;
            let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
            writeln!(log, "{number}").unwrap();
        }
        *chosen == Some(number)
    }

    pub(crate) fn ordering(strong: Ordering, weaker: &[(usize, Ordering)]) -> Ordering {
        weaker.iter().filter(|(number, _)| is(*number)).map(|(_, weak)| *weak).last().unwrap_or(strong)
    }
}
"""


@dataclass
class Weakening:
    number: int
    file: str
    line: int
    # The function, the call in it, the ordering and the weaker one; a number if that is not unique.
    name: str


def blank(text, spans):
    """Returns the text with these parts as spaces; lines stay where they are."""
    for start, end in spans:
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def without_comments(text):
    token = re.compile(r'//[^\n]*|/\*.*?\*/|r#*".*?"#*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.S)
    return blank(text, [match.span() for match in token.finditer(text)])


def end_of_item(text, start):
    """Returns the end of the item that begins after `start`: its `;` or its last bracket."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "{([":
            depth += 1
        elif text[at] in "})]":
            depth -= 1
            if depth == 0 and text[at] == "}":
                return at + 1
        elif text[at] == ";" and depth == 0:
            return at + 1
    return len(text)


def code_of(text):
    """Returns what is compiled for models, without comments and imports."""
    code = without_comments(text)
    code = blank(code, [match.span() for match in USE.finditer(code)])
    for match in list(LEFT_OUT.finditer(code)):
        code = blank(code, [(match.start(), end_of_item(code, match.end()))])
    return code


def call_around(code, at):
    """Returns the name of the function whose argument stands at `at`."""
    depth = 0
    for place in range(at - 1, -1, -1):
        if code[place] in ")]}":
            depth += 1
        elif code[place] in "([{":
            if depth == 0:
                name = re.search(r"(\w+)\s*$", code[:place])
                return name.group(1) if name and code[place] == "(" else ""
            depth -= 1
    return ""


def weaker(ordering, call):
    if call == "fence":
        return {"SeqCst": ["AcqRel"]}.get(ordering, [])
    if ordering == "AcqRel":
        return ["Acquire", "Release"]
    if ordering == "SeqCst":
        return [{"load": "Acquire", "store": "Release"}.get(call, "AcqRel")]
    return ["Relaxed"]


class Sites:
    """All orderings that can be weakened, and the sources in which a number chooses one."""

    def __init__(self):
        self.weakenings = []
        self.sources = {}
        for path in sorted((ROOT / SOURCES).rglob("*.rs")):
            self.add(path)
        probe = PROBE % ((max(len(self.weakenings), 1),) * 2)
        self.sources[ATOMIC] = (ROOT / SOURCES / ATOMIC).read_text() + probe

    def add(self, path):
        file = path.relative_to(ROOT / SOURCES).as_posix()
        text = path.read_text()
        code = code_of(text)
        if file == ATOMIC or "/models/" in file or not USES_ATOMICS.search(text):
            return
        edits = []
        seen = {}
        functions = [(match.start(), match.group(1)) for match in FUNCTION.finditer(code)]

        def new(at, what):
            function = next((name for start, name in reversed(functions) if start < at), "-")
            name = f"{function} {what}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f" {seen[name]}"
            number = len(self.weakenings)
            self.weakenings.append(Weakening(number, file, text.count("\n", 0, at) + 1, name))
            return number

        found = [(match, False) for match in ORDERING.finditer(code)] + [(match, True) for match in FENCE_CALL.finditer(code)]
        for match, is_fence in sorted(found, key=lambda pair: pair[0].start()):
            at, ordering = match.start(), match.group(1)
            call = call_around(code, at)
            if is_fence:
                number = new(at, f"fence::{ordering}->nothing")
                edits.append((match.span(), f"if !crate::base::atomic::weakened::is({number}) {{ {match.group(0)} }}"))
            elif not call:
                continue  # Not an argument: a pattern or a name of something else.
            elif call == "fence" and ordering != "SeqCst":
                end = at + text[at:].index(")") + 1
                start = text.rindex("fence", 0, at)
                number = new(at, f"fence {ordering}->nothing")
                edits.append(((start, end), f"if !crate::base::atomic::weakened::is({number}) {{ {text[start:end]} }}"))
            else:
                pairs = [(new(at, f"{call} {ordering}->{weak}"), weak) for weak in weaker(ordering, call)]
                table = ", ".join(f"({number}, std::sync::atomic::Ordering::{weak})" for number, weak in pairs)
                edits.append((match.span(), f"crate::base::atomic::weakened::ordering({match.group(0)}, &[{table}])"))
        for (start, end), replacement in reversed(edits):
            text = text[:start] + replacement + text[end:]
        if edits:
            self.sources[file] = text


def copy_tree(sources):
    """Brings the copy up to date. Touches only files that differ, so that cargo builds little."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    )
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    changed = {(SOURCES / file).as_posix(): text.encode() for file, text in sources.items()}
    digest = hashlib.sha256()
    for name in names:
        content = changed.get(name) or (ROOT / name).read_bytes()
        copy = TREE / name
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        if name.startswith("sinew/src"):
            digest.update(name.encode() + content)
    for old in TREE.rglob("*.rs"):
        if old.relative_to(TREE).as_posix() not in names:
            old.unlink()
    return digest.hexdigest()


def build(jobs):
    # Not where the models themselves are built: cargo would take one tree's crate for the other's.
    environment = dict(os.environ, RUSTFLAGS="--cfg sinew_loom", CARGO_TARGET_DIR=str(WORK / "build"), CARGO_INCREMENTAL="1")
    command = ["cargo", "test", "-p", "sinew", "--release", "--lib", "--no-run", "--jobs", str(jobs), "--message-format=json"]
    built = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE)
    if built.returncode != 0:
        for line in built.stdout.decode().splitlines():
            message = json.loads(line).get("message")
            if message and message.get("rendered"):
                print(message["rendered"], file=sys.stderr)
        sys.exit("the models do not build")
    artifacts = [json.loads(line) for line in built.stdout.decode().splitlines()]
    return next(a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "sinew")


def run(binary, test, timeout=None, **environment):
    """Returns whether the model holds; `None` if it took too long."""
    command = [binary, "--exact", test]
    try:
        done = subprocess.run(
            command,
            env=dict(os.environ, RUST_BACKTRACE="0", **environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=TREE / "sinew",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode == 0


class Models:
    """The models of a build: where each stands, how long it takes, which orderings it comes to."""

    CACHE = WORK / "reached.json"

    def __init__(self, binary, digest):
        self.binary = binary
        self.digest = digest
        self.lock = threading.Lock()
        listed = subprocess.run([binary, "--list"], check=True, capture_output=True, cwd=TREE / "sinew").stdout.decode()
        self.tests = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
        known = json.loads(self.CACHE.read_text()) if self.CACHE.is_file() else {}
        self.measured = known["models"] if known.get("digest") == digest else {}

    def measure(self, test):
        """Returns the seconds that a model takes and the numbers that it comes to."""
        with self.lock:
            if test not in self.measured:
                log = WORK / "reached.log"
                log.unlink(missing_ok=True)
                start = time.monotonic()
                if not run(self.binary, test, SINEW_REACHED=str(log)):
                    sys.exit(f"{test} fails although nothing is weakened")
                seconds = time.monotonic() - start
                numbers = [int(number) for number in log.read_text().split()] if log.is_file() else []
                self.measured[test] = {"seconds": seconds, "reaches": numbers}
                self.CACHE.write_text(json.dumps({"digest": self.digest, "models": self.measured}))
                print(f"  {seconds:6.1f} s  {test}", file=sys.stderr)
            model = self.measured[test]
            return model["seconds"], model["reaches"]

    def groups(self, file):
        """Returns the models of the file's folder, those of each folder above, and the others."""
        left = self.tests
        for folder in Path(file).parents:
            prefix = "::".join([*folder.parts, "models", ""])
            yield [test for test in left if test.startswith(prefix)]
            left = [test for test in left if not test.startswith(prefix)]
        yield left

    def judge(self, weakening):
        """Returns the fate of one weakening, and the model or the reason."""
        held = 0
        undecided = []
        for group in self.groups(weakening.file):
            measured = [(*self.measure(test), test) for test in group]
            for seconds, _, test in sorted(model for model in measured if weakening.number in model[1]):
                patience = max(LEAST_PATIENCE_S, PATIENCE * seconds)
                holds = run(self.binary, test, timeout=patience, SINEW_WEAKENED=str(weakening.number))
                if holds is None:
                    undecided.append(test)
                elif holds:
                    held += 1
                else:
                    return "killed", test
        if undecided:
            return "undecided", "too long: " + ", ".join(undecided)
        return ("survived", f"{held} models hold") if held else ("unreached", "no model comes to it")


def accepted():
    """Returns the reasons by file and weakening: `file | weakening | reason` on each line."""
    lines = SURVIVORS.read_text().splitlines() if SURVIVORS.is_file() else []
    entries = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ", 2)]
        if len(parts) != 3:
            sys.exit(f"{SURVIVORS}:{number}: not `file | weakening | reason`")
        entries[parts[0], parts[1]] = parts[2]
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files or folders of sinew/src")
    parser.add_argument("--list", action="store_true", help="say what would be weakened")
    parser.add_argument("--name", default="", help="only weakenings whose name contains this")
    parser.add_argument("--unlisted", action="store_true", help="leave out what survivors.txt lists: it takes the longest")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="jobs of cargo, and weakenings at a time (1)")
    options = parser.parse_args()

    sites = Sites()
    wanted = [file.rstrip("/") for file in options.files]
    is_wanted = lambda file: not wanted or any(file == name or file.startswith(name + "/") for name in wanted)
    for name in wanted:
        if not any(w.file == name or w.file.startswith(name + "/") for w in sites.weakenings):
            sys.exit(f"{name}: no ordering to weaken there")
    reasons = accepted()
    chosen = [w for w in sites.weakenings if is_wanted(w.file) and options.name in w.name]
    if options.unlisted:
        chosen = [w for w in chosen if (w.file, w.name) not in reasons]
    if options.list:
        for w in chosen:
            print(f"{w.file}:{w.line}  {w.name}")
        return

    digest = copy_tree(sites.sources)
    print(f"{len(chosen)} of {len(sites.weakenings)} weakenings; building", file=sys.stderr)
    models = Models(build(options.jobs), digest)
    counts = {}
    wrong = []
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    for done, (w, (fate, by)) in enumerate(zip(chosen, pool.map(models.judge, chosen)), 1):
        reason = reasons.pop((w.file, w.name), None)
        if fate == "killed" and reason:
            wrong.append(f"{w.file} | {w.name}: listed as a survivor, but {by} fails")
        elif fate != "killed" and reason:
            fate, by = "accepted", reason
        elif fate != "killed":
            wrong.append(f"{w.file} | {w.name}: {fate}")
        counts[fate] = counts.get(fate, 0) + 1
        print(f"[{done}/{len(chosen)}] {fate:9}  {w.file}:{w.line}  {w.name}  ({by})", flush=True)
    known = {(w.file, w.name) for w in sites.weakenings}
    wrong += [f"{file} | {name}: listed as a survivor, but there is no such ordering" for file, name in reasons if is_wanted(file) and (file, name) not in known]
    print(", ".join(f"{count} {fate}" for fate, count in sorted(counts.items())))
    if wrong:
        print("\nunexpected:\n  " + "\n  ".join(wrong))
        sys.exit(1)


if __name__ == "__main__":
    main()
