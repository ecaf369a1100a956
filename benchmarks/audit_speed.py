"""How fast an audit draws, beside NumPy's own sampling; and how soon it finds planted faults.

The first table has draws per second of processor time: of NumPy's floating-point noise alone, of our exact noise alone,
and of audits that draw, count and judge. The second has the seconds after which a whole audit of a query, a sampler or
a function with a fault is over, and what it says; none has more than two minutes. `ONLY=faults` or `ONLY=speed` does
one half, `BILLION=1` adds a sampler with 10⁹ draws.
"""

import dataclasses
import os
import resource
import time
from contextlib import ExitStack
from importlib import import_module
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from osgt import Dataset, DiscreteOSGT, Mechanism, PrivacyProfile, audit
from osgt.auditing.result import Budget
from osgt.auditing.sampler import sampler
from osgt.limits import choice, contribution
from osgt.plan.selection import select
from osgt.query import measures
from osgt.release import measuring
from osgt.sampling.entropy import system_entropy

MINUTES = 2
RNG = np.random.default_rng()


def spent(do):
    """Processor seconds, seconds and what came out."""
    began = time.process_time(), time.perf_counter()
    found = do()
    return time.process_time() - began[0], time.perf_counter() - began[1], found


def in_batches(draws, draw, size=1 << 16):
    """Drawn without a large array, whose memory would take longer than the draws."""

    def do():
        for _ in range(draws // size):
            draw(size)

    return do


def speed():
    draws, law = 20_000_000, Mechanism(1, 1e-8, coordinates=8).noise
    claim = PrivacyProfile(law)
    zero, one = np.array([0]), np.array([1])

    def mechanism(data, size):
        return data + np.asarray(law.sample((size, 1)))

    def loss(outputs):
        return (law.potential(np.abs(outputs - 1.0)) - law.potential(np.abs(outputs * 1.0))).sum(axis=1)

    def black_box(**options):
        return audit(
            mechanism, data=zero, neighbour=one, claim=claim, vectorised=True, draws=draws // 10, **options
        ).passed

    rows = {
        "NumPy, Laplace alone": (draws, in_batches(draws, lambda n: RNG.laplace(size=n))),
        "NumPy, normal alone": (draws, in_batches(draws, lambda n: RNG.normal(size=n))),
        "NumPy, geometric alone": (draws, in_batches(draws, lambda n: RNG.geometric(0.1, size=n))),
        f"osgt, {law!r} alone": (draws, in_batches(draws, law.sample)),
        "osgt, audit of the sampler": (draws, lambda: sampler(law, Budget(draws)).passed),
        "osgt, audit of a function, loss known": (draws // 5, lambda: black_box(loss=loss)),
        "osgt, audit of a function, nothing known": (draws // 5, black_box),
    }
    print("| draws per second of processor time | millions |\n|---|---|")
    for name, (number, do) in rows.items():
        took, _, found = spent(do)
        assert found is not False
        print(f"| {name} | {number / took / 1e6:.3g} |", flush=True)
    if os.environ.get("BILLION"):
        took, seconds, check = spent(lambda: sampler(law, Budget(10**9)))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{check} {took:.0f} s of processor time, {seconds:.0f} s, {memory:.0f} MB at most")


RIDES = pa.table(
    {
        "user": [i // 3 for i in range(300)],
        "city": [f"c{i % 7}" for i in range(300)],
        "fare": [float(i % 40) for i in range(300)],
    }
)


def open_query():
    """A query whose limit is chosen."""
    return Dataset(RIDES, "user").group_by("city", public_keys=[f"c{i}" for i in range(7)]).count()


def query():
    grouped = Dataset(RIDES, "user").group_by("city", max_groups=2, max_rows_per_group=2)
    return grouped.count().sum("fare", bounds=(0, 10))


def narrower(law, factor):
    return DiscreteOSGT.from_rates(law.slope / factor, law.curvature / factor**2)


def less_noise(plan):
    laws = {measure: narrower(law, 0.95) for measure, law in plan.laws.items()}
    return dataclasses.replace(plan, noise=dataclasses.replace(plan.noise, laws=laws))


def lower_threshold(plan):
    """A threshold for twenty times the δ of the choice; less would still keep the promise, where noise needs no δ."""
    groups, law = plan.groups, plan.laws[plan.selector]
    most, number = groups.shift(plan.selector), groups.max_groups_per_unit
    lower = select(law, most, number, 20 * plan.selection.delta, in_all=groups.limits_in_all(plan.selector))
    return dataclasses.replace(plan, selection=lower)


def of_query(*patches, minutes=None, asked=query):
    """A whole audit of the query with a fault in it."""

    def do():
        with ExitStack() as stack:
            for target, name, planted in patches:
                stack.enter_context(patch.object(target, name, planted))
            return audit(asked(), 1, 1e-6, minutes=minutes)

    return do


def of_function(mechanism, epsilon=None, delta=None, **options):
    given = {"data": np.zeros(8, dtype=np.int64), "neighbour": np.ones(8, dtype=np.int64), "vectorised": True}
    return lambda: audit(mechanism, epsilon, delta, minutes=MINUTES, **{**given, **options})


def noisy(law):
    return lambda data, size: data + np.asarray(law.sample((size, len(data))))


def unclipped(self, rows, place):
    column = rows[self.column]
    return [column.notnull().ifelse(self._of((column.fill_null(0).clip(-100, 100) * 2.0**17).cast("int64")), 0)]


def one_more(rows, keys, values, asked, groups, **options):
    more = dataclasses.replace(groups, max_groups=groups.max_groups + 1)
    return contribution.weighted_sums(rows, keys, values, asked, more, **options)


def rounded_up(honest):
    return lambda numerator, denominator: honest(numerator + denominator - 1, denominator)


def half_the_noise(honest):
    return lambda costs, source=system_entropy: honest([2 * cost for cost in costs], source)


def cut_off(law, probability):
    most = int(law.isf(probability))
    return lambda size: np.clip(law.sample(size), -most, most)


def twice(noise):
    """The fourth group has the noise of the second."""
    if len(noise) > 3:
        noise[3] = noise[1]
    return noise


def shared_noise(honest):
    """The sum has the noise of the count, on its own scale."""

    def planted(plan, exact):
        shown, noisy = honest(plan, exact)
        first = plan.selector
        standard = (noisy[first] - exact[first][shown]) / plan.laws[first].std()
        for measure in noisy:
            if measure != first and not measure.for_table:
                noisy[measure] = exact[measure][shown] + np.rint(standard * plan.laws[measure].std()).astype(np.int64)
        return shown, noisy

    return planted


def two_draws(honest):
    def planted(plan, exact):
        shown, noisy = honest(plan, exact)
        counts = exact[plan.selector][shown]
        noisy[plan.selector] = counts + np.asarray(plan.laws[plan.selector].sample(counts.shape))
        return shown, noisy

    return planted


def faults():
    numbers, salted, drawn = measuring.noisy_numbers, contribution.fresh_salt, Mechanism._noisy
    audit_module = import_module("osgt.auditing.audit")  # the package's name is the function's
    audited = audit_module._release
    law = Mechanism(1, 1e-6, coordinates=8).noise
    curve = PrivacyProfile(law, coordinates=8)
    shifted = {"data": 0.0, "neighbour": 1.0}
    rows = {
        "noise scale × 0.95, a query": of_query(
            (measuring, "noisy_numbers", lambda plan, e: numbers(less_noise(plan), e)), minutes=MINUTES / 2
        ),
        "noise scale × 0.95, a function": of_function(noisy(narrower(law, 0.95)), claim=curve),
        "one group more than max_groups": of_query((measuring, "weighted_sums", one_more)),
        "a worth that is rounded up": of_query((contribution, "quotient", rounded_up(contribution.quotient))),
        "a limit chosen with half the noise": of_query(
            (choice, "permute_and_flip", half_the_noise(choice.permute_and_flip)), asked=open_query
        ),
        "a column that is not clipped": of_query((measures.ClippedSum, "contributions", unclipped)),
        "a salt with a bit that is set too often": of_query(
            (measuring, "fresh_salt", lambda: salted() | (8 if RNG.random() < 0.3 else 0))
        ),
        "one salt for all releases": of_query((measuring, "fresh_salt", lambda: 1234567)),
        "the same noise in two groups": of_query(
            (Mechanism, "_noisy", lambda mechanism, steps: steps + twice(drawn(mechanism, np.zeros_like(steps))))
        ),
        "the same noise in two columns": of_query((measuring, "noisy_numbers", shared_noise(numbers))),
        "groups chosen by one draw, another published": of_query((measuring, "noisy_numbers", two_draws(numbers))),
        "a threshold for twenty times its δ": of_query(
            (audit_module, "_release", lambda target, plan: audited(target, lower_threshold(plan)))
        ),
        "float noise with its low bits": of_function(
            lambda x, n: x + RNG.laplace(size=n), 1, 0, **shifted
        ),
        "Laplace noise for half the coordinates": of_function(noisy(Mechanism(1, 0, coordinates=4).noise), 1, 0),
        "a sampler whose tail is cut at 1e-5": lambda: sampler(
            law, Budget(10**9, 60 * MINUTES), cut_off(law, 1e-5)
        ),
        "a sampler whose tail is cut at 1e-7": lambda: sampler(
            law, Budget(10**9, 60 * MINUTES), cut_off(law, 1e-7)
        ),
    }  # fmt: skip
    print("| planted fault | found | seconds | processor seconds | what was said first |\n|---|---|---|---|---|")
    for name, do in rows.items():
        processor, seconds, found = spent(do)
        said = found.findings[0] if found.findings else "-"
        print(f"| {name} | {'no' if found.passed else 'yes'} | {seconds:.1f} | {processor:.1f} | {said} |", flush=True)


if __name__ == "__main__":
    only = os.environ.get("ONLY")
    if only != "faults":
        speed()
    if only != "speed":
        faults()
