#!/usr/bin/env python3
"""Tries the changes that cargo-mutants lists, without a build for each: every function gets, beside its body, a copy
of it for each change, and an environment variable chooses among them. So one build serves for all changes.

Usage: mutants.py TREE LIST FILTER CARGO-OPTION...
  TREE    a copy of the sources, which is changed
  LIST    the output of "cargo mutants --list --json"
  FILTER  which unit tests have to notice: the start of their names
Prints what becomes of each change, and last those that no test notices.
"""
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

SWITCH = """
#[doc(hidden)]
pub mod mutant {
    pub fn chosen() -> u32 {
        static CHOSEN: std::sync::LazyLock<u32> =
            std::sync::LazyLock::new(|| std::env::var("MUTANT").map_or(0, |id| id.parse().unwrap_or(0)));
        *CHOSEN
    }
}
"""
# Of the compiler: a change that always overflows is one for the tests to notice.
ALLOW = "#![allow(warnings, arithmetic_overflow, unconditional_panic, overflowing_literals)]\n"
CPU_SECONDS, MEMORY = 100, 16_000_000_000


class Mutant:
    def __init__(self, number, entry, text):
        self.number, self.name, self.file = number, entry["name"], entry["file"]
        at = lambda place: text.offset(place["line"], place["column"])
        self.begin, self.end = (at(entry["span"][end]) for end in ("start", "end"))
        self.replacement = entry["replacement"]
        function = entry.get("function")
        self.function = None
        # Arms of different types are no value of an opaque one.
        if function and "impl " not in (function["return_type"] or ""):
            self.function = tuple(at(function["span"][end]) for end in ("start", "end"))

    def apply(self, source, begin=0, end=None):
        return source[begin : self.begin] + self.replacement + source[self.end : end]


class Text(str):
    """The text of a file; places are lines and columns from 1."""

    def offset(self, line, column):
        if not hasattr(self, "starts"):
            self.starts = [0] + [i + 1 for i, c in enumerate(self) if c == "\n"]
        return self.starts[line - 1] + column - 1


def switched(source, mutants):
    """The source with a switch in each function, and the line range of each mutant there."""
    functions = defaultdict(list)
    for mutant in mutants:
        functions[mutant.function].append(mutant)
    # A function within another one belongs to the outer one.
    outer = lambda f: min(g for g in functions if g[0] <= f[0] and f[1] <= g[1])
    grouped = defaultdict(list)
    for function, own in functions.items():
        grouped[outer(function)] += own
    result, places, position = "", {}, 0
    for (begin, end), own in sorted(grouped.items()):
        # No signature has a brace; if one had, the compiler would say so.
        body = source.index("{", source.index("fn ", first_line(source, begin)))
        result += source[position:body] + "{ match crate::mutant::chosen() {\n"
        for mutant in own:
            start = result.count("\n") + 1
            result += f"{mutant.number} => {mutant.apply(source, body, end)}\n"
            places[mutant] = (start, result.count("\n"))
        result += f"_ => {source[body:end]}\n}} }}"
        position = end
    return result + source[position:], places


def first_line(source, begin):
    """The start of a function behind its comments and attributes."""
    while re.match(r"\s*(//|#)", source[begin:]):
        begin = source.index("\n", begin + 1)
    return begin


def build(tree, options, arms):
    """The test program; or the errors as (file, line)."""
    command = ["cargo", "test", "--no-run", "--message-format", "json", *options]
    run = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    errors, program = set(), None
    for message in map(json.loads, filter(lambda line: line.startswith("{"), run.stdout.splitlines())):
        if message["reason"] == "compiler-artifact" and message.get("executable"):
            program = message["executable"]
        if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
            for span in filter(lambda span: span["is_primary"], message["message"]["spans"]):
                while span["file_name"] not in arms and span.get("expansion"):
                    span = span["expansion"]["span"]
                errors.add((span["file_name"], span["line_start"]))
    if run.returncode != 0 and not errors:
        sys.exit(f"cargo failed:\n{run.stderr}")
    return program, errors


def limit():
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def outcome(program, tree, tests, number):
    """Runs the tests until one fails."""
    environment = {**os.environ, "MUTANT": str(number), "RAYON_NUM_THREADS": "2"}
    run = subprocess.Popen([program, *tests], cwd=tree, env=environment, preexec_fn=limit,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = []
    for line in run.stdout:
        output.append(line)
        if line.startswith("test ") and line.endswith(" FAILED\n"):
            run.kill()
            run.wait()
            return "killed", output
    status = run.wait()
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout", output
    return ("survived" if status == 0 else "killed"), output


def main():
    tree, (listed, tests), options = Path(sys.argv[1]), sys.argv[2:4], sys.argv[4:]
    sources, mutants = {}, []
    for entry in json.load(open(listed)):
        file = entry["file"]
        if file not in sources:
            sources[file] = Text((tree / file).read_text())
        mutants.append(Mutant(len(mutants) + 1, entry, sources[file]))
    lib = tree / "src/lib.rs"
    lib.write_text(ALLOW + lib.read_text() + SWITCH)
    tests = tests.split()

    # Builds until what does not compile is gone.
    alone, unviable = [m for m in mutants if not m.function], []
    left = [m for m in mutants if m.function]
    while True:
        places = {}
        for file, source in sources.items():
            text, own = switched(source, [m for m in left if m.file == file])
            (tree / file).write_text(text)
            places.update(own)
        program, errors = build(tree, options, set(sources))
        if not errors:
            break
        hit = lambda m: any(f == m.file and places[m][0] <= line <= places[m][1] for f, line in errors)
        bad = [m for m in left if hit(m)]
        if not bad:
            sys.exit(f"errors outside of changes: {sorted(errors)}")
        unviable += bad
        left = [m for m in left if m not in bad]
        print(f"{len(bad)} changes do not compile", flush=True)

    found = Counter(unviable=len(unviable))
    survivors = []
    def note(mutant, result):
        found[result] += 1
        print(f"{result:9} {mutant.name}", flush=True)
        if result == "survived":
            survivors.append(mutant.name)

    result, output = outcome(program, tree, tests, 0)
    if result != "survived":
        sys.exit("".join(output) + "the tests fail without a change")
    only = os.environ.get("ONLY")
    for mutant in left:
        if not only or re.search(only, mutant.name):
            note(mutant, outcome(program, tree, tests, mutant.number)[0])
    # The others one by one.
    for file, source in sources.items():
        (tree / file).write_text(source)
    for mutant in alone:
        if only and not re.search(only, mutant.name):
            continue
        source = sources[mutant.file]
        (tree / mutant.file).write_text(mutant.apply(source))
        program, errors = build(tree, options, set(sources))
        note(mutant, "unviable" if errors else outcome(program, tree, tests, 0)[0])
        (tree / mutant.file).write_text(source)
    print(", ".join(f"{count} {what}" for what, count in found.items()))
    print("\n".join(survivors))
    sys.exit(bool(survivors))


main()
