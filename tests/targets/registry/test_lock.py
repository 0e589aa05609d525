"""`opsplice.lock`: what is written is read again as it was, changes are small in a diff, mistakes have their line."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.trust import lock
from opsplice.targets.registry.trust.lock import Lock, Locked

ONE, TWO, KEY = "sha256:" + "1" * 64, "sha256:" + "2" * 64, "a" * 64
SOURCE = "oci://registry.example/acme/kernels"
ACME = Locked("acme_kernels", SOURCE, "1.4", ONE, {"x86_64": TWO, "cuda:sm_80": ONE}, KEY)
OTHER = Locked("other", "oci://localhost:5443/other", "latest", TWO)

TEXT = f"""\
# Packages of kernels and patterns, by digest. opsplice writes this file: review it and commit it.
lock = 1

[packages.acme_kernels]
source = "oci://registry.example/acme/kernels"
version = "1.4"
digest = "{ONE}"
key = "{KEY}"

[packages.acme_kernels.targets]
"cuda:sm_80" = "{ONE}"
x86_64 = "{TWO}"

[packages.other]
source = "oci://localhost:5443/other"
version = "latest"
digest = "{TWO}"
unsigned = true
"""


def test_a_lock_is_written_in_one_order_and_read_again():
    written = Lock().with_package(OTHER).with_package(ACME)
    assert written.text() == TEXT
    assert lock.parse(TEXT.encode()) == written


LETTERS = string.ascii_letters + string.digits + "_"
NAMES = st.builds(str.__add__, st.sampled_from(LETTERS), st.text(LETTERS + ".-", max_size=20))
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
PACKAGES = st.builds(
    Locked,
    NAMES,
    st.text(string.ascii_letters + string.digits + "/:._-", min_size=1).map("oci://".__add__),
    st.just("") | NAMES,
    DIGESTS.map("sha256:".__add__),
    st.dictionaries(st.sampled_from(["x86_64", "cuda:sm_80", "x86_64 avx512f,fma", "any"]), st.just(ONE)),
    st.just("") | DIGESTS,
)


@given(st.lists(PACKAGES, max_size=5, unique_by=lambda package: package.name))
def test_random_locks_are_read_as_they_were_written(packages):
    written = Lock()
    for package in packages:
        written = written.with_package(package)
    found = lock.parse(written.text().encode())
    assert found == written
    assert found.text() == written.text()


def test_another_version_changes_the_lines_that_differ():
    before = Lock((ACME, OTHER)).text().splitlines()
    after = Lock((ACME, OTHER)).with_package(Locked("other", OTHER.source, "1.0", ONE)).text().splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        ('version = "latest"', 'version = "1.0"'),
        (f'digest = "{TWO}"', f'digest = "{ONE}"'),
    ]


def test_a_package_is_found_by_source_and_version_or_digest():
    both = Lock((ACME, OTHER))
    assert both.find(ACME.source) == both.find(ACME.source, "1.4") == both.find(ACME.source, digest=ONE) == ACME
    assert both.find(ACME.source, "1.5") is both.find(ACME.source, digest=TWO) is both.find("oci://elsewhere/x") is None
    assert both.without("other") == Lock((ACME,))
    assert both.named("other") == OTHER


def test_a_lock_is_not_touched_if_nothing_changes(tmp_path):
    path = tmp_path / "opsplice.lock"
    assert lock.read_if_there(path) == Lock(file=str(path))
    lock.write(path, Lock((ACME,)))
    before = path.stat().st_ino
    lock.write(path, lock.read(path))
    assert path.stat().st_ino == before
    lock.write(path, Lock((OTHER,)))
    assert lock.read(path).packages == (OTHER,)
    assert [each.name for each in tmp_path.iterdir()] == ["opsplice.lock"]


WRONG = {
    "no TOML": (b"lock = 1\n[packages", "opsplice.lock:2: "),
    "no TOML at the end": (b"lock = 1\na = '''\n", "opsplice.lock:3: "),
    "not UTF-8": (b"lock = 1\n# \xff\n", "opsplice.lock:2: this is not UTF-8"),
    "no lock": (b"[tool]\n", "opsplice.lock:1: this is not a lock of opsplice"),
    "true is not 1": (b"lock = true\n", "opsplice.lock:1: this is a lock of format True"),
    "of the future": (b"\nlock = 2\n", "opsplice.lock:2: this is a lock of format 2, and opsplice reads 1"),
    "more than packages": (b"lock = 1\nlocks = 2\n", "opsplice.lock:2: 'locks' is not known here"),
    "packages as a list": (b"lock = 1\npackages = []\n", "opsplice.lock:2: 'packages' is not a table"),
    "a name with a path": (b'lock = 1\n[packages."../x"]\n', "opsplice.lock:2: '../x' is not a package's name"),
    "a package that is none": (b"lock = 1\npackages.x = 3\n", "opsplice.lock:2: 'x' is not a table"),
    "deep": (b"lock = 1\nx = " + b"[\n" * 100_000, "opsplice.lock:1: its values are nested too deep"),
    "a long line": (b"lock = 1\n" + b"a." * 600 + b"b = 1", "opsplice.lock:2: the line is longer than 1000"),
    "a long number": (b"lock = " + b"1" * 990 * 5, "opsplice.lock:1: the line is longer"),
    "a date that is none": (b"lock = 2000-99-99\n", "opsplice.lock:1: "),
}


@pytest.mark.parametrize(("data", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_lock_is_an_error_with_its_line(data, message):
    with pytest.raises(OpspliceError) as error:
        lock.parse(data)
    assert error.value.message.startswith(message)


CHANGED = {
    "a source with a digest": ('acme/kernels"', f'acme/kernels@{ONE}"', 5, "'source' is not where the package"),
    "a tag that is none": ('"1.4"', '"../1.4"', 6, "'version' is not a tag"),
    "another hash": (f'digest = "{ONE}"', 'digest = "md5:00"', 7, "'digest' is not a digest"),
    "capital digits": (f'digest = "{TWO}"', f'digest = "{"sha256:" + "A" * 64}"', 17, "'digest' is not a digest"),
    "a digest in lines": (f'x86_64 = "{TWO}"', f'x86_64 = "{TWO}\\n"', 12, "'x86_64' is not a digest"),
    "a key that is none": (f'key = "{KEY}"', 'key = "mine"', 8, "'key' is not a key's id"),
    "signed and not": (f'key = "{KEY}"', f'key = "{KEY}"\nunsigned = true', 8, "acme_kernels needs either 'key' or"),
    "neither": ("unsigned = true", "", 14, "other needs either 'key' or 'unsigned = true'"),
    "unsigned = false": ("unsigned = true", "unsigned = false", 14, "other needs either 'key' or"),
    "unsigned as text": ("unsigned = true", 'unsigned = "no"', 18, "'unsigned' is neither true nor false"),
    "no source": ('source = "oci://localhost:5443/other"', "", 14, "'source' is missing"),
    "an unknown word": ("unsigned = true", "unsigned = true\nurl = 1", 19, "'url' is not known here"),
    "a target that is none": ('"cuda:sm_80"', '"../x"', 11, "'../x' is not a target"),
}


@pytest.mark.parametrize(("old", "new", "line", "message"), CHANGED.values(), ids=CHANGED)
def test_what_is_wrong_in_a_lock_is_an_error_with_its_line(old, new, line, message):
    assert old in TEXT
    with pytest.raises(OpspliceError) as error:
        lock.parse(TEXT.replace(old, new).encode())
    assert error.value.message.startswith(f"opsplice.lock:{line}: {message}")


def test_a_merge_that_was_not_resolved_is_said():
    text = TEXT.replace('version = "1.4"', '<<<<<<< HEAD\nversion = "1.4"\n=======\nversion = "1.5"\n>>>>>>> other')
    with pytest.raises(OpspliceError, match=r"opsplice.lock:6: .*\n*help: a merge left its marks in the file"):
        lock.parse(text.encode())


def test_a_registry_puts_nothing_of_its_own_into_a_lock():
    assert lock.check_new(ACME) is ACME
    for hostile in ('1"\nunsigned = true', "1.4\n", "a b", "x" * 200):
        with pytest.raises(OpspliceError, match=r"'version' is not a tag|longer than"):
            lock.check_new(Locked("acme", ACME.source, hostile, ONE))
    with pytest.raises(OpspliceError, match="is not a target"):
        lock.check_new(Locked("acme", ACME.source, "1", ONE, {"x\n[packages.y]": ONE}))


def test_a_lock_is_a_file_and_not_large(tmp_path):
    with pytest.raises(OpspliceError, match="no such file") as error:
        lock.read(tmp_path / "opsplice.lock")
    assert "opsplice kernel lock oci://" in error.value.hint
    with pytest.raises(OpspliceError, match="is a folder"):
        lock.read_if_there(tmp_path)
    (tmp_path / "opsplice.lock").write_bytes(b"\n" * ((1 << 20) + 1))
    with pytest.raises(OpspliceError, match="larger than 1 MiB"):
        lock.read(tmp_path / "opsplice.lock")
