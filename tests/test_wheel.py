"""The check of the wheel's contents; the wheel itself is built by `make test-all`."""

from __future__ import annotations

from zipfile import ZipFile

import pytest

from tests.wheel import ROOT, frozen_certificates, missing_from, version_faults

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


def test_a_release_whose_files_name_other_versions_is_refused(tmp_path):
    (tmp_path / "src/pacbandits").mkdir(parents=True)
    (tmp_path / "src/pacbandits/version.py").write_text('__version__ = "0.2.0"\n')
    for cited, heading, count in (
        ("0.2.0", "0.2.0 (2026-11-20)", 0),
        ("0.1.0", "0.2.0 (2026-11-20)", 1),
        ("0.2.0", "0.2.0 (2026-11-21)", 1),
        ("0.2.0", "0.2.0 (unreleased)", 1),
        ("0.1.0", "Unreleased", 2),
    ):
        (tmp_path / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {cited}\ndate-released: 2026-11-20\n")
        (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n## 0.1.0 (2026-01-01)\n")
        assert len(version_faults(tmp_path)) == count


def test_a_release_verifies_a_certificate_of_each_format():
    folders = {path.name for path in (ROOT / "tests/stored").glob("certificate_*")}
    assert {proof.parent.parent.name for proof, _ in frozen_certificates()} == folders
