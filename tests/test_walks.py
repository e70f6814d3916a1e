"""The counts of the source tree: imports, repeated class names, small modules, and the walk through a task."""

from __future__ import annotations

from benchmarks.walks import read_source, walk

from pacbandits.confidence import check_delta, check_positive_epsilon


def test_source_counts_of_a_small_package(tmp_path):
    home = tmp_path / "pack"
    (home / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "front.py": "from pack.inner import middle\nfrom pack.inner.middle import Thing\n",
        "inner/__init__.py": "",
        "inner/middle.py": "import pack.base\n\nclass Thing:\n    class Part: ...\n",
        "base.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack import front\n"
            "try:\n    import pack.long\nexcept ImportError:\n    pass\nclass Part: ...\n"
            "def late():\n    import pack.front\n"
        ),
        "long.py": "\n" * 200,
    }
    for name, text in files.items():
        (home / name).write_text(text)
    source = read_source(home)
    assert source.files == 6
    assert source.chain == ["pack.front", "pack.inner.middle", "pack.base", "pack.long"]
    assert source.repeated == {"Part": ["pack.base", "pack.inner.middle"]}
    assert source.small == {"pack.base": "pack.inner.middle", "pack.inner.middle": "pack.front"}


def test_a_walk_counts_the_files_entered_and_the_returns_to_them():
    found = walk(lambda: (check_delta(0.1), check_positive_epsilon(0.2)))
    functions = [function for _, function in found.steps]
    assert {"check_delta", "check_positive_epsilon"} <= set(functions)
    assert len(set(functions)) == len(functions)
    assert found.files == 2  # confidence.py and what validates a number
    assert found.returns >= 1
