"""What the accessibility checker axe-core finds wrong with a page."""

from axe_playwright_python.sync_playwright import Axe

#: All rules of the WCAG up to 2.2 AA, and what axe recommends.
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

#: With the details of violations alone: those of what is right take longer than the check itself.
_RUN = """rules => axe.run({runOnly: rules, resultTypes: ["violations"]})
    .then(found => found.violations.map(each => [each.id, each.nodes[0].html]))"""


def violations(page):
    """Each rule that the page breaks, with the first element that does."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    return [tuple(each) for each in page.evaluate(_RUN, list(RULES))]
