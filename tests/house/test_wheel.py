"""What `./recollect wheel` finds wrong with a wheel and an sdist; whole ones are built in CI."""

import io
import tarfile
import zipfile

import pytest
from tools import wheel

import recollect

ABOUT = f"recollect-{recollect.__version__}.dist-info"
METADATA = f"Metadata-Version: 2.4\nName: recollect\nVersion: {recollect.__version__}\n\n# recollect\n"
DEMO = "recollect/demos/demo-text/step/step.onnx"


@pytest.fixture
def contents():
    """The names that an sdist and a wheel should hold."""
    files, pages = wheel.package_files(), wheel.page_files()
    sdist = {f"src/{name}" for name in files} | set(pages.values()) | wheel.BESIDE | wheel.ADDED
    return sdist, files | set(pages) | {f"{ABOUT}/licenses/LICENSE"}


def check(folder, sdist, names, metadata=METADATA):
    source, built = folder / "recollect.tar.gz", folder / "recollect.whl"
    with tarfile.open(source, "w:gz") as archive:
        for name in sdist:
            archive.addfile(tarfile.TarInfo(f"recollect-{recollect.__version__}/{name}"), io.BytesIO())
    with zipfile.ZipFile(built, "w") as archive:
        archive.writestr(f"{ABOUT}/METADATA", metadata)
        for name in names:
            archive.writestr(name, "")
    wheel.check_contents(source, built)


def test_whole_ones_pass(tmp_path, contents):
    sdist, names = contents
    assert {DEMO, "recollect/py.typed", "recollect/tasks/series/sunspots.csv"} <= names
    assert {"recollect/course/01-autoregression.md", "recollect/course/12-cache-linear-ttt.zh.md"} <= names
    assert {"recollect/layer_pages/gru.md", "recollect/layer_pages/gru.zh.md"} <= names
    check(tmp_path, sdist, names)


@pytest.mark.parametrize("name", [DEMO, "recollect/py.typed", "recollect/report/templates/page.html"])
def test_a_file_that_is_missing_is_named(tmp_path, contents, name):
    sdist, names = contents
    with pytest.raises(wheel.WheelError, match=f"recollect.whl: expected {name} inside"):
        check(tmp_path, sdist, names - {name})
    with pytest.raises(wheel.WheelError, match=f"recollect.tar.gz: expected src/{name} inside"):
        check(tmp_path, sdist - {f"src/{name}"}, names)


def test_a_page_of_the_course_that_is_missing_is_named(tmp_path, contents):
    sdist, names = contents
    with pytest.raises(wheel.WheelError, match="recollect.whl: expected recollect/course/04-gates.md inside"):
        check(tmp_path, sdist, names - {"recollect/course/04-gates.md"})
    with pytest.raises(wheel.WheelError, match="recollect.tar.gz: expected docs/course/04-gates.md inside"):
        check(tmp_path, sdist - {"docs/course/04-gates.md"}, names)


@pytest.mark.parametrize("name", ["tests/conftest.py", "results/claims.json", "data/book.txt"])
def test_a_file_that_does_not_belong_there_is_named(tmp_path, contents, name):
    sdist, names = contents
    with pytest.raises(wheel.WheelError, match=f"recollect.whl: expected the package alone, found {name}"):
        check(tmp_path, sdist, names | {name})
    with pytest.raises(wheel.WheelError, match=f"recollect.tar.gz: expected the package alone, found {name}"):
        check(tmp_path, sdist | {name}, names)


def test_a_wheel_of_another_version_or_without_its_licence_is_refused(tmp_path, contents):
    sdist, names = contents
    with pytest.raises(wheel.WheelError, match="and the README in its metadata"):
        check(tmp_path, sdist, names, METADATA.replace(recollect.__version__, "9.9.9"))
    with pytest.raises(wheel.WheelError, match="expected the licence"):
        check(tmp_path, sdist, names - {f"{ABOUT}/licenses/LICENSE"})
