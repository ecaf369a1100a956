"""A release as an entry of the Differential Privacy Deployments Registry (github.com/opendp/deployments-registry-data).

The fields are those of its schema of July 2026. What only the office knows is a blank that begins with `TO FILL IN`;
where the schema wants one of several words, the field is a comment until somebody has chosen.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from osgt.data.unit import ROW, Noun
from osgt.facts import wording
from osgt.facts.statement import Statement
from osgt.plan.plan import SHOWN
from osgt.query.about import About
from osgt.query.groups import OTHER, Groups, Level
from osgt.support.text import listed, one_line, with_article

BLANK = "TO FILL IN"

#: Fields of which one of several words is to be chosen: by section, what follows the name.
_CHOICES = {
    "basic": {"data_product_sector": "Technology, Healthcare, Education, Government, Energy or Finance"},
    "deployment_model": {"data_source_type": "Static or Dynamic"},
}

_HEADER = """\
# An entry for the Differential Privacy Deployments Registry, in the fields of its schema of July 2026.
# Written from the statement of a release. Please replace every "TO FILL IN", and remove the # before fields that you
# fill in.
"""


def entry(statement: Statement, about: About) -> dict[str, Any]:
    """The entry in plain values."""
    values = statement.to_dict()
    privacy = values["privacy"]
    noun, title = Noun(*privacy["noun"]), about.title or _columns(values)
    parameters = {"epsilon": float(values["epsilon"])}
    if values["delta"] > 0:
        parameters["delta"] = float(values["delta"])
    deployment = {
        "basic": {
            "name": about.title or f"{BLANK}: the name of the table ({_columns(values)})",
            "data_curators": [about.publisher or f"{BLANK}: who publishes the table"],
            "description": _description(values, about),
            "intended_use": f"{BLANK}: what the table is for",
            "data_product_type": "Summary statistics",
            "data_product_region": f"{BLANK}: the region that the data are about, or whose law applies",
            "publication_date": values["date"][:10],
        },
        "dp_variant": {
            "variant_name": "Approximate DP" if values["delta"] > 0 else "Pure DP",
            "data_domain": f"All tables with these columns, with any number of {noun.many} and rows. Rows without "
            f"{with_article(noun)} are ignored.",
            "unprotected_quantities": _unprotected(values),
        },
        "privacy_loss": {
            "privacy_unit": f"each {noun} ({privacy['unit_in_words']})",
            "privacy_unit_details": f"Neighbouring tables: {privacy['neighbouring']}. {BLANK}: how people and these "
            "units belong together.",
            "privacy_parameters": parameters,
            "privacy_parameters_details": "In total for the table, with all its columns and the choice of its groups.",
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": f"The publisher holds the data; everybody sees the table. {BLANK}: who else has access, and why "
            "they are trusted.",
            "release_type": "One release",
            "release_type_details": f"{_ledger(values)} {BLANK}: whether more will be published from these data.",
            "access_type": "Non-interactive",
        },
        "accounting": {"post_processing": _after(values, noun), "composition": _composition(values, noun)},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _before(values, noun),
            "mechanisms": _mechanisms(values),
            "justification": f"{BLANK}: how ε, δ, the unit and the limits were chosen, and why.",
        },
        "administrative": {
            "sources": about.source or f"{BLANK}: links to the table and to what was written about it",
            "notes": statement.words,
            "registry_authors": [f"{BLANK}: who wrote this entry"],
        },
    }
    return {"url_slug": _slug(title), "status": "Draft", "tier": 3, "deployment": deployment}


def registry_yaml(statement: Statement, about: About) -> str:
    """The entry as a YAML file, with a comment for what is to be chosen."""
    return _HEADER + "".join(f"{line}\n" for line in _lines(entry(statement, about), 0))


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "table"


def _columns(values: Mapping[str, Any]) -> str:
    names = {role: [c["name"] for c in values["columns"] if c["role"] == role] for role in ("key", "value")}
    return listed(names["value"]) + (f" by {listed(names['key'])}" if names["key"] else "")


def _description(values: Mapping[str, Any], about: About) -> str:
    keys = [about.label(column["name"]) for column in values["columns"] if column["role"] == "key"]
    what = [about.heading(column["name"]) for column in values["columns"] if column["role"] == "value"]
    groups = f" for {values['groups_shown']:,} groups, by {listed(keys)}" if keys else ""
    more = [text for text in (about.subtitle, about.period and f"Period: {about.period}") if text]
    return " ".join([f"A table of {listed(what)}{groups}, each with a noise interval.", *(f"{m}." for m in more)])


def _unprotected(values: Mapping[str, Any]) -> str:
    if values["query"]["groups"]["public_keys"] is not None:
        return f"None. {wording.GIVEN_GROUPS}"
    chosen = values["privacy"]["threshold"] is not None
    return "None. Which groups are shown, and how many, is part of the promise." if chosen else "None."


def _ledger(values: Mapping[str, Any]) -> str:
    return wording.ledger("release", *((None, None) if values["ledger"] is None else values["ledger"].values()))


def _composition(values: Mapping[str, Any], noun: Noun) -> str:
    return (
        f"All numbers that one {noun} can change are accounted for together, by the exact privacy loss of their noise "
        f"(numerical composition, rounded towards more loss), and not by adding up shares of ε. {_ledger(values)}"
    )


def _after(values: Mapping[str, Any], noun: Noun) -> str:
    privacy = values["privacy"]
    derived = {asked: sum_ for asked, sum_ in privacy["numbers"].items() if sum_ != f"({asked})"}
    told = [f"The number of {asked} is computed as {sum_}." for asked, sum_ in derived.items()]
    if "totals" in values["query"]["groups"]:
        told.append(_totals(values))
    told.append("Noise intervals were computed from the noise distribution.")
    told += wording.negative_numbers(nonnegative=values["nonnegative"])
    if privacy["threshold"] is not None:
        counted = noun.many if privacy["chosen_by"] == "units" else privacy["chosen_by"]
        told.append(wording.threshold(counted, privacy["threshold"], privacy["shown_size"], SHOWN))
    return " ".join(one_line(text) for text in told)


def _totals(values: Mapping[str, Any]) -> str:
    if values["query"]["groups"]["public_keys"] is None:
        return wording.total_of_chosen_groups(OTHER)
    return wording.totals([Level(tuple(level["by"])).words for level in values["query"]["groups"]["totals"]])


def _before(values: Mapping[str, Any], noun: Noun) -> str:
    plain, data = values["query"]["groups"], values["query"]["data"]
    limits = {name: plain.get(name) for name in wording.LIMITS}
    groups = Groups(tuple(plain["by"]), each_row=data["privacy_unit"] == ROW, **limits, noun=noun)
    counts_units = any(aggregate["kind"] == "count_units" for aggregate in values["query"]["aggregates"])
    told = wording.limits(groups, counts_units=counts_units)
    for aggregate in values["query"]["aggregates"]:
        if "max_total" in aggregate:
            total = aggregate["max_total"]
            most = total[-1] if isinstance(total, list) else total
            told.append(wording.total_limit(noun, aggregate["column"], f"{most:,}"))
        if "max_distinct" in aggregate and not groups.each_row:
            told.append(wording.distinct_limit(noun, aggregate["column"], aggregate["max_distinct"]))
        if "bounds" in aggregate:
            low, high = aggregate["bounds"]
            told.append(
                f"Values of {aggregate['column']} below {low:,} or above {high:,} count as the nearer of these."
            )
    told += [f"Only rows with: {one_line(condition)}." for condition in values["query"]["data"]["where"]]
    told.append(f"{BLANK}: how these limits were chosen, and whether data that are not public were looked at for that.")
    return " ".join(dict.fromkeys(told))


def _mechanisms(values: Mapping[str, Any]) -> str:
    measures = values["privacy"]["measures"]
    noise = [f"{measure['measure']}: {wording.noise(measure['noise'])}" for measure in measures]
    return (
        f"Additive noise. {'; '.join(noise)}. Library: {values['software']}. Values become whole "
        "numbers before they are added up, and noise is drawn exactly, as whole numbers, from the operating system's "
        "randomness: there are no floating-point errors in it. Draws are made in batches of a fixed size, ahead of the "
        f"values that they are added to. {BLANK}: how the data themselves are protected, and who may read them."
    )


def _lines(plain: Mapping[str, Any], depth: int, section: str = "") -> Iterator[str]:
    """YAML of nested tables, texts, numbers and lists of texts. Texts are quoted as in JSON, which YAML understands."""
    indent = "  " * depth
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(value, depth + 1, name)
        elif isinstance(value, list):
            yield f"{indent}{name}:"
            yield from (f"{indent}  - {_scalar(item)}" for item in value)
        else:
            yield f"{indent}{name}: {_scalar(value)}"
    for name, words in _CHOICES.get(section, {}).items():
        yield f"{indent}# {name}: {BLANK}: {words}"


def _scalar(value: str | int | float) -> str:
    if isinstance(value, float):
        # A number without a point is text for many readers of YAML: 1e-08.
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")
    return str(value) if isinstance(value, int) else json.dumps(one_line(value), ensure_ascii=False)
