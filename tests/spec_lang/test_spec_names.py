"""Names of libraries: each has its own, sees those that it imports, and says which it means where two have one."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsplice.spec_lang.linting.lint import untidy
from opsplice.spec_lang.loading import libraries
from opsplice.spec_lang.loading.loader import LoadedSpec, load, load_text
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.spec_errors import SpecError
from tests.packages import install


def library(op: str) -> str:
    """A library with a kernel and a pattern of usual names, a pattern that takes an op, and a rule."""
    return f"""
kernel kernel_of_layer(x: f32[n]) -> f32[n] {{ cpu "{op}.c" }}
pattern layer(x: tensor<n x f32>) {{ act<{op}>(x) }}
pattern act<op f>(x: tensor<n x f32>) {{ negf(f(x)) }}
pattern whole(x: tensor<n x f32>) where x is not layer(_) {{ layer(layer(x)) }}
replace layer with kernel_of_layer(x)
"""


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    install(site, "acme", {"acme.splice": library("exp"), "extra.splice": "pattern extra(x: tensor<f32>) { sin(x) }\n"})
    install(site, "zeta", {"zeta.splice": library("cos")})
    install(site, "over", {"over.splice": 'import "acme"\npattern over(x: tensor<n x f32>) { absf(layer(x)) }\n'})


def ends(spec: LoadedSpec, name: str) -> list[str]:
    """What a pattern computes: the ops of it and of all that it uses, from the last one on."""
    found, pending = [], list(spec.patterns[name].results)
    while pending:
        expr = pending.pop(0)
        if isinstance(expr, tree.Call) and expr.callee in spec.patterns:
            pending = [*spec.patterns[expr.callee].results, *expr.args, *pending]
        elif isinstance(expr, tree.Call):
            found.append(expr.callee)
            pending = [*expr.args, *pending]
    return found


def errors_of(text: str) -> str:
    with pytest.raises(SpecError) as raised:
        load_text(text)
    return str(raised.value)


def test_libraries_with_the_same_names_do_not_meet() -> None:
    spec = load_text('import "acme"\nimport "zeta"\n')
    assert ends(spec, "acme.layer") == ["negf", "exp"]
    assert ends(spec, "zeta.layer") == ["negf", "cos"]
    assert [(rule.pattern, rule.kernel) for rule in spec.rules] == [
        ("acme.layer", "acme.kernel_of_layer"),
        ("zeta.layer", "zeta.kernel_of_layer"),
    ]
    assert {kernel.symbol for kernel in spec.kernels.values()} == {"kernel_of_layer"}
    (condition,) = [p.where for p in spec.patterns.values() if p.name == "acme.whole"]
    assert isinstance(condition, tree.Is)
    assert isinstance(condition.form, tree.Call)
    assert condition.form.callee == "acme.layer"


def test_without_a_clash_names_are_as_they_are_written() -> None:
    spec = load_text('import "acme"\npattern mine(x: tensor<n x f32>) { tanh(acme.layer(x)) }\n')
    assert list(spec.patterns) == ["layer", "whole", "mine", "act<exp>"]
    assert ends(spec, "mine") == ["tanh", "negf", "exp"]
    assert list(spec.kernels) == ["kernel_of_layer"]


def test_a_name_of_two_libraries_is_said_with_the_library() -> None:
    imports = 'import "acme"\nimport "zeta"\n'
    text = errors_of(f"{imports}replace layer with kernel_of_layer(x)\n")
    assert "<text>:3:9: error: acme and zeta both declare layer" in text
    assert "acme/specs/acme.splice:3:9: note: that of acme" in text
    assert "zeta/specs/zeta.splice:3:9: note: that of zeta" in text
    assert "help: say which: acme.layer or zeta.layer" in text
    assert "<text>:3:20: error: acme and zeta both declare kernel_of_layer" in text
    spec = load_text(
        f"{imports}pattern mine(x: tensor<n x f32>) {{ acme.act<zeta.layer>(tanh(x)) }}\n"
        "replace acme.layer priority 1 with zeta.kernel_of_layer(x)\n"
        "replace acme.act<tan> with zeta.layer(x)\n"
    )
    assert ends(spec, "mine") == ["negf", "negf", "cos", "tanh"]
    assert (spec.rules[0].pattern, spec.rules[0].kernel) == ("acme.layer", "zeta.kernel_of_layer")
    assert ends(spec, "acme.act<tan>") == ["negf", "tan"]


def test_own_names_go_before_those_of_libraries() -> None:
    spec = load_text(
        'import "acme"\n'
        "pattern layer(x: tensor<n x f32>) { sqrt(x) }\n"
        "pattern both(x: tensor<n x f32>) { layer(acme.layer(x)) }\n"
    )
    assert ends(spec, "both") == ["sqrt", "negf", "exp"]
    assert ends(spec, "whole") == ["negf", "exp", "negf", "exp"]
    assert "pattern layer is declared twice" in errors_of(
        "pattern layer(x: tensor<f32>) { exp(x) } pattern layer(x: tensor<f32>) { exp(x) }"
    )


def test_the_names_of_the_spec_itself_are_as_it_writes_them(tmp_path: Path) -> None:
    """Whatever is installed besides."""
    install(
        tmp_path / "site",
        "mine",
        {"mine.splice": 'import "acme"\n' + library("sin") + "replace mine.whole with kernel_of_layer(x)"},
    )
    spec = load(libraries.find("mine", {}).spec(), libraries.find("mine", {}))
    assert ends(spec, "layer") == ["negf", "sin"]
    assert ends(spec, "acme.layer") == ["negf", "exp"]
    assert [rule.pattern for rule in spec.rules] == ["acme.layer", "layer", "whole"]


def test_what_a_library_imports_is_seen_by_it_alone() -> None:
    assert ends(load_text('import "over"\n'), "over") == ["absf", "negf", "exp"]
    text = errors_of('import "over"\nreplace layer with kernel_of_layer(x)\n')
    assert "<text>:2:9: error: layer is declared in acme, which this file does not import" in text
    assert 'help: write import "acme:acme"' in text
    text = errors_of('import "acme"\npattern p(x: tensor<f32>) { extra(x) }\n')
    assert "unknown op or pattern extra" in text  # of a file of it that nobody reads
    both = load_text('import "over"\nimport "zeta"\npattern mine(x: tensor<n x f32>) { layer(x) }\n')
    assert ends(both, "mine") == ["negf", "cos"]
    assert ends(both, "over") == ["absf", "negf", "exp"]


def test_a_library_sees_no_names_of_the_user(tmp_path: Path) -> None:
    install(tmp_path / "site", "loose", {"loose.splice": "pattern loose(x: tensor<f32>) { mine(x) }\n"})
    text = errors_of('import "loose"\npattern mine(x: tensor<f32>) { exp(x) }\n')
    assert "loose.splice:1:33: error: library loose declares no mine" in text
    assert "<text>:2:9: note: it is here" in text


def test_a_kernel_of_a_patterns_name_hides_the_pattern() -> None:
    text = errors_of(
        'import "acme"\nkernel layer(x: f32[n]) -> f32[n] { cpu "layer.c" }\nreplace layer with layer(x)\n'
    )
    assert "<text>:3:9: error: unknown pattern layer" in text
    assert "help: that is a kernel; the pattern of its name is acme.layer" in text


def test_names_that_no_library_has() -> None:
    text = errors_of('import "acme"\nreplace acme.leyer with acme.kernel_of_layer(x)\n')
    assert "<text>:2:9: error: acme declares no leyer" in text
    assert "help: did you mean layer?" in text
    assert "unknown pattern zeta.layer" in errors_of('import "acme"\nreplace zeta.layer with kernel_of_layer(x)\n')
    assert "unknown pattern arith.nosuch" in errors_of("replace arith.nosuch<exp> with arith.k(x)\n")


def test_imports_of_libraries_that_nothing_uses(tmp_path: Path) -> None:
    spec = load_text('import "acme:extra"\nimport "opsplice:nn"\nimport "acme"\n', tmp_path / "main.splice")
    assert [d.message for d in untidy(spec, [tmp_path / "main.splice"])] == [
        "nothing uses what acme:extra declares",
        "nothing uses what opsplice:nn declares",
    ]
