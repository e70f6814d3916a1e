"""Run the notebooks of the documentation and store what their cells show; `make docs` turns them into pages.

    python docs/tools/notebooks.py            all of them, in place
    python docs/tools/notebooks.py plan       one

Cells are run by Python itself, in an empty folder, so that no Jupyter is needed.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

HOME = Path(__file__).parent.parent / "notebooks"
Cell = dict[str, Any]


def run(notebook: dict[str, Any], *, name: str) -> list[list[Cell]]:
    """The outputs of each code cell, run one after another in an empty folder."""
    module = ModuleType(name)
    before, sys.modules[name] = sys.modules.get(name), module  # where dataclasses look for the names of a class
    try:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            return [_outputs("".join(cell["source"]), module) for cell in code_cells(notebook)]
    finally:
        if before is None:
            del sys.modules[name]


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _outputs(source: str, module: ModuleType) -> list[Cell]:
    """Run a cell; what it prints, and its last expression as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(tree, module.__name__, "exec", dont_inherit=True), vars(module))
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), module.__name__, "eval"), vars(module))
    out: list[Cell] = []
    if said.getvalue():
        out.append({"name": "stdout", "output_type": "stream", "text": said.getvalue().splitlines(keepends=True)})
    if value is not None:
        out.append({"data": _shown(value), "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return out


def _shown(value: Any) -> dict[str, Any]:
    """A value in the forms that it offers; the plain one of those that have a better one is their type alone."""
    data: dict[str, Any] = {}
    if hasattr(value, "_repr_html_") and (page := value._repr_html_()) is not None:
        data["text/html"] = page.splitlines(keepends=True)
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    data["text/plain"] = [f"<{type(value).__name__}>"] if data else repr(value).splitlines(keepends=True)
    return data


def main() -> None:
    for path in sorted(HOME.glob("*.ipynb")):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for number, (cell, outputs) in enumerate(
            zip(code_cells(notebook), run(notebook, name=f"notebook_{path.stem}"), strict=True), start=1
        ):
            for one in outputs:
                if "execution_count" in one:
                    one["execution_count"] = number
            cell["execution_count"], cell["outputs"] = number, outputs
        text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"written: {path.name}")


if __name__ == "__main__":
    main()
