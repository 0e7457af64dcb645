"""Seconds are summed over a test's phases, and over a folder's tests."""

import collections

import pytest

from tests import seconds

Report = collections.namedtuple('Report', 'nodeid duration')
REPORTS = [
  Report('tests/loss/a_test.py::test_x', 1.0),
  Report('tests/loss/a_test.py::test_x', 0.5),
  Report('tests/nn/deep/b_test.py::test_y[1/2]', 2.0),
  Report('tests/loss/c_test.py::test_z', 1.0),
  Report('tests/mesh_test.py::test_w', 0.25),
]


def test_of_folders():
  found = seconds.by_folder(REPORTS)
  assert list(found.items()) == [('loss', 2.5), ('nn', 2), ('tests', 0.25)]


def test_of_tests():
  name, longest = next(iter(seconds.slowest(REPORTS).items()))
  assert (name, longest) == ('tests/nn/deep/b_test.py::test_y[1/2]', 2.0)
  assert seconds.slowest(REPORTS)['tests/loss/a_test.py::test_x'] == 1.5


def test_every_test_is_of_the_core_or_of_the_laboratory(request):
  for item in request.session.items:
    marks = {x.name for x in item.iter_markers()} & {'core', 'lab'}
    folder = item.nodeid.split('/')[1]
    assert marks == {'lab' if folder == 'lab' else 'core'}


@pytest.mark.parametrize(
  ('given', 'expected'),
  [
    ('', 'not slow'),
    ('core', '(core) and not slow'),
    ('slow and not nightly', 'slow and not nightly'),
    ('nightly', 'nightly'),
  ],
)
def test_what_is_slow_is_asked_for_by_name(given, expected):
  assert seconds.expression(given) == expected
