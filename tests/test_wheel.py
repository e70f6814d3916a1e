"""The check of the wheel's contents; the wheel itself is built by `make test-all`."""

from __future__ import annotations

from zipfile import ZipFile

import pytest

from tests.wheel import ROOT, missing_from

PACKAGE = ROOT / "src/pacbandits"


@pytest.mark.parametrize("folder", ["service/dashboard/templates", "service/dashboard/assets", "engines/cuda/kernels"])
def test_a_wheel_without_templates_assets_or_kernels_is_refused(tmp_path, folder):
    left_out = sorted(f"pacbandits/{folder}/{path.name}" for path in (PACKAGE / folder).iterdir())
    wheel = tmp_path / "pacbandits.whl"
    with ZipFile(wheel, "w") as packed:
        for path in PACKAGE.rglob("*"):
            name = path.relative_to(ROOT / "src").as_posix()
            if path.is_file() and name not in left_out:
                packed.writestr(name, b"")
    assert left_out
    assert missing_from(wheel) == left_out
