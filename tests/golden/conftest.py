"""The option with which the expected texts are written again."""


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write the expected texts of tests/golden again")
