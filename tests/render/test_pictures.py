"""Pictures: everything is inside its box, in order, whatever the numbers."""

import re

import pytest

from osgt.render.page import Point, dots, lines
from osgt.support.text import Shown

SCALES = [(0.0, 0.0, 0.0), (1e12, 9e11, 1.1e12), (1e-9, 0.0, 2e-9), (-5.0, -6.0, -4.0), (3.0, -2.0, 8.0)]


def point(value, low, high, label="a"):
    return Point(label, value, low, high, Shown(str(value), str(low), str(high)))


def test_dots_lie_within_their_bars():
    picture = dots("t", [("", [point(5.0, 2.0, 8.0), point(-3.0, -9.0, 1.0)])])
    [(_, (first, second))] = picture.groups
    for dot in (first, second):
        assert 0 <= dot.start < dot.at < dot.start + dot.length <= 100
    assert second.at < first.at
    [zero] = [tick for tick in picture.ticks if tick.is_zero]
    assert second.at < zero.at < first.at


@pytest.mark.parametrize("numbers", SCALES)
def test_any_scale(numbers):
    picture = dots("t", [("", [point(*numbers)])])
    [(_, (dot,))] = picture.groups
    assert 0 <= dot.start <= dot.at <= dot.start + dot.length <= 100
    assert 2 <= len(picture.ticks) <= 7
    assert [tick.at for tick in picture.ticks] == sorted(tick.at for tick in picture.ticks)
    assert (picture.ticks[0].at, picture.ticks[-1].at) == (0, 100)


@pytest.mark.parametrize("numbers", SCALES)
def test_lines_stay_in_their_box(numbers):
    row = [(x, point(*numbers, label=str(x))) for x in (1.0, 2.0, 5.0)]
    picture = lines("t", [("p", row)])
    [panel] = picture.panels
    for path in (panel.line, panel.band, panel.dots):
        assert all(0 <= float(number) <= 100 for number in re.findall(r"[\d.]+", path))
    assert (picture.first, picture.last) == ("1.0", "5.0")
    assert [float(x) for x in re.findall(r"[ML]([\d.]+) ", panel.line)] == [0, 25, 100]


def test_gaps_are_not_bridged():
    row = [(float(x), None if x == 2 else point(1.0, 0.0, 2.0, str(x))) for x in range(5)]
    [panel] = lines("t", [("p", row)]).panels
    assert panel.line.count("M") == panel.band.count("Z") == 2
    assert "50.0 " not in panel.line
    assert panel.dots.count("M") == 4


def test_a_panel_without_values():
    row = [(float(x), point(1.0, 0.0, 2.0, str(x))) for x in range(3)]
    empty = [(x, None) for x, _ in row]
    assert lines("t", [("p", row), ("q", empty)]).panels[1].alternative == "q: no values"
