"""All benchmarks: `python -m benchmarks`."""

from __future__ import annotations

from benchmarks import designs, trees

designs.main()
trees.main()
