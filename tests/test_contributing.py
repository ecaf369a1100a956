"""CONTRIBUTING.md knows every module."""

from module_tables import FILE, modules, summary, tables


def test_every_module_is_described():
    assert [path for path in modules() if not summary(path)] == []


def test_the_tables_are_those_of_the_modules():
    assert FILE.read_text(encoding="utf-8").endswith(tables()), "run: python tests/module_tables.py"
