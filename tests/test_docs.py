"""What the documentation says must be so: its Python runs, its links lead somewhere, its metadata are in order."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
import sys
import tomllib
import unicodedata
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import pacbandits

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FRONT = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md")
]
RUN = [
    *sorted((DOCS / "tutorials").glob("*.md")),
    *sorted((DOCS / "api").glob("*.md")),
    DOCS / "deploying.md",
    DOCS / "learners.md",
    DOCS / "planning.md",
    ROOT / "CONTRIBUTING.md",
]
LONG = [DOCS / "tutorials" / "production.md"]  # hundreds of people come, each stored before the next
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
FIGURE = re.compile(r"\d[\d.,]*")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def named(path):
    return str(path.relative_to(ROOT))


def without_code(text):
    """A page without what is not read as Markdown."""
    return re.sub(r"`[^`\n]+`", "", FENCE.sub("", text))


def anchors(text):
    """The anchors of a page's headings, as both code hosts and the site make them."""
    found = []
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip()
        found.append(re.sub(r"\s+", "-", words))
    return found


def links(path):
    return re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text(encoding="utf-8")))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.slow] if path in LONG else []) for path in RUN], ids=map(named, RUN)
)
def test_blocks_of_a_page_run_in_order(path, tmp_path, monkeypatch, capsys, command):
    """Python blocks share their names, as in one file; commands find the files that were written before them.

    What a page shows as output is what came out, in every figure; the last digit of one may differ between machines.
    """
    text = path.read_text(encoding="utf-8")
    if "import vowpalwabbit" in text:
        pytest.importorskip("vowpalwabbit")  # it has no wheels for the newest Python
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    module = ModuleType("tutorial")
    monkeypatch.setitem(sys.modules, "tutorial", module)
    said = ""
    for language, block in FENCE.findall(text):
        if language == "python":
            exec(compile(block, named(path), "exec", dont_inherit=True), vars(module))
            said += capsys.readouterr().out
        elif language == "sh":
            for line in block.splitlines():
                program, *arguments = line.split()
                assert program == "pacbandits"
                code, out, err = command(*arguments)
                # Code 3: the log does not prove what was asked, and the tutorial says so.
                assert code in (0, 3), (line, err)
                said += out
        elif language == "text":
            for part in filter(None, map(str.strip, block.split("…"))):
                assert is_shown(part, said), f"{part}\n\nis shown, and this came out:\n\n{said}"


def is_shown(part, said):
    """Whether words came out, with their figures (to a unit of the last digit of fractions), however laid out."""
    part, said = (TIME.sub("now", text) for text in (part, said))
    words = [[re.escape(between) for between in FIGURE.split(word)] for word in part.split()]
    pattern = r"\s+".join(f"({FIGURE.pattern})".join(word) for word in words)
    figures = FIGURE.findall(part)
    return any(all(map(is_near, figures, found.groups())) for found in re.finditer(f"(?={pattern})", said))


def is_near(shown, came):
    """Whether two figures are the same, or fractions whose last digit differs by one."""
    if shown == came or "." not in shown.strip(".,") or re.sub(r"\d", "", shown) != re.sub(r"\d", "", came):
        return shown == came
    one, other = (int(re.sub(r"\D", "", figure)) for figure in (shown, came))
    return abs(one - other) <= 1


def test_a_figure_that_is_out_of_date_is_seen():
    assert is_shown("coda 1,317 samples, 0.019 below", "x\ncoda   1,317 samples,\n0.020 below the best")
    assert not is_shown("coda 1,317 samples", "coda 1,912 samples")
    assert not is_shown("0.019 below", "0.021 below")
    assert is_shown("1 and 2 and 3", "0 and 1 and 2 and 3")
    assert is_shown("# no figure (at all)", "there is\n#   no figure (at all) here")


def test_the_first_tutorial_ends_with_a_certificate_that_holds(tmp_path, monkeypatch):
    """The figure it shows is the one that it gives."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "tutorials" / "csv.md").read_text(encoding="utf-8")
    exec(next(block for language, block in FENCE.findall(text) if language == "python"), {})
    log, _ = pacbandits.read_log("test.csv", action="banner", reward="orders", split="uniform")
    (shown,) = re.findall(r"ε that the data certify +([\d.]+)", text)
    made = pacbandits.certify(log).certificate
    assert made.certified
    assert made.certified_epsilon == pytest.approx(float(shown), rel=1e-3)


@pytest.mark.first(31)
@pytest.mark.parametrize("name", [name for name in pacbandits.__all__ if name != "__version__"])
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    public = getattr(pacbandits, name)
    module = import_module(public.__module__)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in finder.find(public, name, module=module, globs={}):
        runner.run(test)
    assert runner.failures == 0


ENTRIES = {
    "certify": pacbandits.certify,
    "load_certificate": pacbandits.load_certificate,
    "load_problem": pacbandits.load_problem,
    "measure": pacbandits.measure,
    "plan": pacbandits.plan,
    "read_log": pacbandits.read_log,
    "run": pacbandits.run,
    "save_certificate": pacbandits.save_certificate,
    "verify": pacbandits.verify,
    "Coda": pacbandits.Coda,
    "Contexts.of": pacbandits.Contexts.of,
    "Log.of": pacbandits.Log.of,
    "Trees.learn": pacbandits.Trees.learn,
    "Uniform": pacbandits.Uniform,
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entry_points_have_examples(name):
    """Those that a newcomer meets first show how they are called."""
    assert ">>> " in ENTRIES[name].__doc__


@pytest.mark.parametrize("path", [*PAGES, *FRONT], ids=named)
def test_links_lead_somewhere(path):
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        place = path if not target else (path.parent / target).resolve()
        assert place.exists(), f"{named(path)}: nothing at {link}"
        if not anchor or place.suffix != ".md" or anchor.startswith("pacbandits."):
            continue
        stood_for = _stand_ins().get(place, place)
        assert anchor in anchors(stood_for.read_text(encoding="utf-8")), f"{named(path)}: no place {link}"


@pytest.mark.parametrize("path", [*PAGES, *FRONT], ids=named)
def test_pages_load_nothing_from_elsewhere(path):
    """Pictures are files of ours, and no page holds HTML that could load anything."""
    text = without_code(path.read_text(encoding="utf-8"))
    assert not re.findall(r"!\[[^\]]*\]\((?:https?:)?//", text)
    assert not re.findall(r"<(?:script|link|img|iframe|style)\b", text, re.IGNORECASE)


@pytest.mark.first(45)
@pytest.mark.parametrize("path", [*PAGES, *FRONT], ids=named)
def test_files_that_are_named_exist(path):
    """Folders and Python files in code within a line, named from the root, from the package, or from the page."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for name in re.findall(r"`((?:[\w-]+/)+(?:[\w-]+\.py)?|[\w-]+\.py)`", text):
        if name.startswith(("site/", "out/", "dist/")):  # these are made
            continue
        homes = (ROOT, ROOT / "src" / "pacbandits", path.parent)
        assert any((home / name).exists() for home in homes), f"{named(path)}: there is no {name}"


def _stand_ins():
    """Pages that show a file of the root."""
    hooks = _tool("hooks")
    return {(DOCS / page).resolve(): ROOT / source for page, source in hooks.PAGES.items()}


def _tool(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (?:.*: )?([\w/-]+\.md)$", text[text.index("\nnav:") :], re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_nothing_of_others_is_switched_on():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.search(r"^  font: false$", text, re.MULTILINE)
    for word in ("extra_javascript:", "analytics:", "http:", "https:", "repo_url:"):
        assert word not in text


def test_every_public_name_is_in_the_reference_once():
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.md")))
    shown = Counter(name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    assert shown == Counter(name for name in pacbandits.__all__ if name != "__version__")
    index = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\[`(\w+)`\]", index)) == set(shown)


def test_the_site_shows_formulas_as_they_are_written():
    escaped = _tool("hooks").escaped
    assert escaped("*Fix* π* and Δ̂_l, **so V*** ends") == r"*Fix* π\* and Δ̂\_l, **so V*** ends"
    assert escaped("`a_b` [x](y_z.md)\n\n    x_y π*\n\nu_v") == "`a_b` [x](y_z.md)\n\n    x_y π*\n\nu\\_v"
    assert escaped(r"| `\|Π\|` | log \|Π\| |") == r"| `|Π|` | log \|Π\| |"
    assert escaped("```python\na_b\n```\nc_d") == "```python\na_b\n```\nc\\_d"


def test_a_file_of_the_root_becomes_a_page():
    as_page = _tool("hooks").as_page
    assert (
        as_page("[a](docs/api/index.md) [CHANGELOG.md](CHANGELOG.md)")
        == "[a](api/index.md) [CHANGELOG.md](changelog.md)"
    )
    assert as_page("[SECURITY.md](SECURITY.md)") == "`SECURITY.md`"


def test_the_check_of_the_site_finds_what_is_wrong(tmp_path):
    find_faults = _tool("check").find_faults
    (tmp_path / "good.html").write_text('<a href="other.html#here">x</a><a href="https://example.org/">y</a>')
    (tmp_path / "other.html").write_text('<p id="here">x</p><link rel="stylesheet" href="a.css">')
    (tmp_path / "a.css").write_text("p { color: red }")
    assert find_faults(tmp_path) == []
    (tmp_path / "bad.html").write_text(
        '<a href="other.html#there">x</a><a href="nowhere.html">y</a><script src="//example.org/x.js"></script>'
        '<link rel="stylesheet" href="https://example.org/x.css">'
    )
    (tmp_path / "b.css").write_text("@import url(https://example.org/y.css);")
    (tmp_path / "c.js").write_text('load("https://unpkg.com/mermaid@11")')
    faults = find_faults(tmp_path)
    assert len(faults) == 5
    (tmp_path / "other.html").write_text('<p id="here">x</p><pre class="mermaid">x</pre>')
    assert len(find_faults(tmp_path)) == 6


def test_metadata_are_in_order():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE"]
    assert project["authors"] == [{"name": "The pacbandits authors"}]
    assert {"contextual bandits", "A/B testing"} <= set(project["keywords"])
    assert not any("License ::" in classifier for classifier in project["classifiers"])  # the expression says it
    assert project["readme"] == "README.md"
    assert "docs" in project["optional-dependencies"]
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence
    assert "Copyright 2026 The pacbandits authors" in licence


def test_the_citation_names_software_and_paper():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for line in ("cff-version: 1.2.0", f"version: {pacbandits.__version__}", "license: Apache-2.0", "type: software"):
        assert re.search(rf"^{re.escape(line)}$", text, re.MULTILINE), line
    assert "Instance-optimal PAC Algorithms for Contextual Bandits" in text
    assert re.findall(r"family-names: (\w+)", text) == ["Li", "Ratliff", "Nassif", "Jamieson", "Jain"]


def test_the_changelog_knows_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^## (.+)$", text, re.MULTILINE)[:2]
    known = first if first != "Unreleased" else second  # changes after a release stand above it
    assert re.fullmatch(rf"{re.escape(pacbandits.__version__)} \((unreleased|\d{{4}}-\d\d-\d\d)\)", known)


NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_of_a_notebook_show_what_is_stored(path):
    """Texts and pages are compared in every figure but seconds, pictures by being there."""
    tool, notebook = _tool("notebooks"), json.loads(path.read_text(encoding="utf-8"))
    came = tool.run(notebook, name=f"notebook_{path.stem}")
    for cell, outputs in zip(tool.code_cells(notebook), came, strict=True):
        assert len(cell["outputs"]) == len(outputs)
        for stored, new in zip(cell["outputs"], outputs, strict=True):
            assert stored.get("data", {}).keys() == new.get("data", {}).keys()
            shown, said = (_without_style(one) for one in (stored, new))
            assert is_shown(shown, said), f"{shown}\n\nis shown, and this came out:\n\n{said}"


def _without_style(output):
    """The text of an output; a page without its style, drawings and seconds."""
    data = output.get("data", {})
    text = "".join(data.get("text/html", data.get("text/plain", output.get("text", ()))))
    text = re.sub(r"<(style|svg)\b.*?</\1>", "", text, flags=re.DOTALL)
    return re.sub(r"\b[\d.]+ s<", "seconds<", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    page = _tool("hooks").notebook_page(notebook, f"notebooks/{path.stem}.md")
    assert page.splitlines()[0] == path.with_suffix(".md").read_text(encoding="utf-8").splitlines()[0]
    assert page.count("```python\n") == sum(cell["cell_type"] == "code" for cell in notebook["cells"])
    assert '<div class="pacbandits">' in page
    assert "data:image/png;base64," in page
    for html in re.findall(r'<div class="pacbandits">.*?^</div>$', page, re.DOTALL | re.MULTILINE):
        assert "\n\n" not in html
    for name in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        assert name.startswith("data:") or (path.parent / name).exists(), name


NEEDED = {
    "article": {"journal"},
    "book": {"publisher"},
    "inproceedings": {"booktitle"},
    "misc": set(),
    "techreport": {"institution"},
}


def read_bibtex(text):
    """The entries of a bibliography by key: their kind, and their fields. ValueError where it does not parse."""
    out, place = {}, 0
    while text[place:].strip():
        head = re.compile(r"\s*@(\w+)\{(\w+),\s*").match(text, place)
        if head is None:
            raise ValueError(f"no entry begins at {text[place : place + 40]!r}")
        fields, place = {}, head.end()
        while not text.startswith("}", place):
            name = re.compile(r"(\w+) = \{").match(text, place)
            if name is None:
                raise ValueError(f"{head[2]}: no field and no closing brace at {text[place : place + 40]!r}")
            start, place, depth = name.end(), name.end(), 1
            while depth:
                if place == len(text):
                    raise ValueError(f"{head[2]}: {name[1]} has no closing brace")
                depth += {"{": 1, "}": -1}.get(text[place], 0)
                place += 1
            if name[1] in fields:
                raise ValueError(f"{head[2]}: {name[1]} twice")
            fields[name[1]] = text[start : place - 1]
            place = re.compile(r",?\s*").match(text, place).end()
        place += 1
        if head[2] in out:
            raise ValueError(f"{head[2]} twice")
        out[head[2]] = (head[1], fields)
    return out


def test_the_bibliography_parses_and_its_entries_are_whole():
    entries = read_bibtex((DOCS / "references.bib").read_text(encoding="utf-8"))
    assert len(entries) > 50
    for key, (kind, fields) in entries.items():
        assert {"author", "title", "year"} | NEEDED[kind] <= fields.keys(), key
        assert all(value.strip() for value in fields.values()), key
        assert 1900 < int(fields["year"]) < 2100, key
        assert key == "VowpalWabbit" or re.fullmatch(rf"[A-Z][A-Za-z]+{fields['year']}[a-z]?", key), key
        pages = fields.get("pages", "1")
        assert re.fullmatch(r"\d+|(\d+)--(\d+)", pages), key
        assert [int(page) for page in pages.split("--")] == sorted(int(page) for page in pages.split("--")), key
    assert len({fields["title"] for _, fields in entries.values()}) == len(entries)


@pytest.mark.parametrize("text", ["@misc{a,\n  title = {b}\n@misc{c,\n}", "@misc{a,\n  title = {b", "misc"])
def test_a_bibliography_that_lacks_a_brace_is_refused(text):
    with pytest.raises(ValueError, match=r"brace|no entry"):
        read_bibtex(text)


NAME = r"(?:de )?[A-Z][^\W\d_A-Z]+(?:-[A-Z][^\W\d_A-Z]+)*\b"
# "Catoni 2012", "Li et al. (2010)", "Jia, Imai and Li, "Title", 2024", with the place of publication after the title.
CITATION = re.compile(
    rf'({NAME}(?:(?:, and |, | and ){NAME})*)( et al\.)?(?:,? \(?|, "[^"]{{5,150}}",? (?:[A-Z][A-Za-z ]*,? )?)'
    r"((?:19|20)\d\d)\b(?!-\d)"
)
NO_AUTHORS = {("Mar", "2026")}  # a date in a docstring


def without_accents(text):
    """The text without accents, as Unicode or as TeX writes them, and without braces."""
    plain = unicodedata.normalize("NFD", re.sub(r"\\\W|[{}]", "", text))
    return "".join(one for one in plain if not unicodedata.combining(one))


def test_every_citation_has_an_entry_and_every_entry_is_cited():
    entries = {}
    for key, (_, fields) in read_bibtex((DOCS / "references.bib").read_text(encoding="utf-8")).items():
        names = [one.split(",")[0] for one in without_accents(fields["author"]).split(" and ")]
        entries[key] = (names, fields["year"])
    cited = set()
    sources = [path for folder in ("src", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    for path in [*PAGES, ROOT / "README.md", *sources]:
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\b(?:19|20)\d\d", text):
            continue
        text = re.sub(r"\s+(?:#\s*)?", " ", text)
        keys = set(re.findall(r"\[([A-Z][A-Za-z]+(?:19|20)\d\d[a-z]?)\]", text))
        assert keys <= entries.keys(), f"{path}: {keys - entries.keys()}"
        for found, others, year in CITATION.findall(text):
            names = re.split(", and |, | and ", without_accents(found))
            shown = 1 if others else None
            fitting = {key for key, (authors, of) in entries.items() if of == year and names == authors[:shown]}
            assert fitting or (found, year) in NO_AUTHORS, f"{path}: no entry has {found}{others} {year}"
            keys |= fitting
        cited |= keys
    assert entries.keys() == cited, entries.keys() - cited


def test_people_find_how_to_ask_and_how_to_behave():
    for name in ("CODE_OF_CONDUCT.md", "SUPPORT.md", "SECURITY.md"):
        assert f"]({name})" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), name
    assert "make coverage" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    # make release refuses a checkout with files that are not in the history.
    assert ".coverage*" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
