"""The suite of `make conformance SUITES=jax`: cases that compile share a program, those that do not fail alone."""

import pytest

from opsplice.common.errors import OpspliceError
from scripts.conformance import WrongError

pytest.importorskip("jax")
suite = pytest.importorskip("scripts.conformance.jax_numpy")


def test_cases_are_told_apart(monkeypatch):
    cases = {case.name: case for case in suite.cases()}
    assert len(cases) == len(suite.cases()) > 500
    names = ["nn.softmax(x)", "jnp.roots(v,strip_zeros=False)", "jax.random.split(k,3)"]
    suite.prepare([cases[name] for name in names], ())
    assert {name for name, _ in suite._results} == {names[0], names[2]}
    assert [cases[name].run(()) for name in (names[0], names[2])] == [0, 0]
    with pytest.raises(OpspliceError, match="lapack_sgeev_ffi"):
        cases[names[1]].run(())
    monkeypatch.setattr(suite, "_results", {(names[0], ()): (suite.arrays()["x"], 0)})
    with pytest.raises(WrongError, match="elements differ"):
        cases[names[0]].run(())
