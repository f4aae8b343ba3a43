"""The site, as far as it can be checked without building it; `make docs` does the rest."""

from pathlib import Path
from types import ModuleType

import hebbnmf

DOCS = Path(__file__).parents[1] / "docs"


def public_modules(package):
    """Yield a module and those in it, but not those whose names the package has all itself."""
    yield package
    for name in package.__all__:
        module = getattr(package, name)
        if isinstance(module, ModuleType) and not set(module.__all__) <= set(package.__all__):
            yield from public_modules(module)


def test_the_reference_has_every_public_name():
    modules = {module.__name__ for module in public_modules(hebbnmf)}
    assert len(modules) > 5
    modules.remove("hebbnmf.adapters")  # which has nothing but modules
    assert modules <= set((DOCS / "reference.rst").read_text().split())


def test_every_parameter_has_its_section():
    heads = [line for line in (DOCS / "parameters.md").read_text().splitlines() if line[:2] == "##"]
    for name in hebbnmf.OnlineSNMF().get_params():
        assert any(f"`{name}`" in head for head in heads), name
