"""Every mutant still applies, and the tests that should notice it exist."""

import functools
import pathlib
import re

import pytest

from tests.mutation import listed, mutant
from tests.mutation.mutant import ROOT, Mutant

MUTANTS = listed.mutants()
LEAST = 150
# What is to be attacked somewhere.
SPREAD = (
  'advantage',
  'loss',
  'ops',
  'signal',
  'curate',
  'collect',
  'memory',
  'reward',
  'judge',
  'task',
  'rollout',
  'learner.update',
  'learner.policy_gradient',
  'learner.minibatch',
  'optimizer',
  'mesh',
  'segment',
  'nn',
  'model',
  'text',
  'tool',
  'service',
  'judge',
  'env',
  'dataset',
  'runtime.checkpoint',
  'log.metrics',
  'stats.intervals',
  'stats.paired',
  'evaluate',
  'gateway',
  'loop',
  'schedule',
  'registry',
  'learner.algorithm',
  'log.sample',
  'log.run_summary',
  'stats.credit_accuracy',
  'run.play.collect',
  'run.stage.stages',
  'run.algorithm',
  'run.play.host_env',
  'run.check.validate',
  'run.workdir',
  'lab.study.analysis',
  'lab.study.execute',
  'lab.tabular.train',
  'lab.tabular.policy',
  'lab.tabular.diagnostics',
  'lab.tabular.build',
  'lab.tabular.mdp',
)


@functools.cache
def read(path: pathlib.Path) -> str:
  return path.read_text(encoding='utf-8')


def source(m: Mutant) -> str:
  return read(ROOT / mutant.path(m))


def test_each_applies():
  for name, m in MUTANTS.items():
    assert mutant.planted(source(m), m) != source(m), name
    assert m.reason, name


def test_their_tests_exist():
  for name, m in MUTANTS.items():
    for node in m.tests.split():
      path, _, function = node.partition('::')
      assert (ROOT / path).exists(), (name, node)
      if function:
        defined = rf'^def {function}\('
        text = read(ROOT / path)
        assert re.search(defined, text, re.MULTILINE), (name, node)


def test_there_are_enough_and_no_two_are_the_same():
  same = {(m.module, m.function, m.old, m.new) for m in MUTANTS.values()}
  assert len(same) == len(MUTANTS) >= LEAST


def test_everything_is_attacked():
  for part in SPREAD:
    inside = re.compile(rf'agentrl\.{re.escape(part)}(\.|$)')
    assert any(inside.match(m.module) for m in MUTANTS.values()), part


TEXT = '''"""A module."""

RATES = {'a': 1, 'b': 2}


@decorated(1)
def f(x):
  """x + 1"""

  def g(y):
    return y + 1

  return g(x) + x


class C:
  def g(self):
    return 1
'''


def planted(function: str, old: str, new: str) -> str:
  m = Mutant('m', function, old, new, 'tests', 'a reason')
  return mutant.planted(TEXT, m)


@pytest.mark.parametrize(
  ('function', 'old', 'new'),
  [
    ('RATES', "'b': 2", "'b': 1"),
    ('f', 'decorated(1)', 'decorated(2)'),
    ('f.g', 'y + 1', 'y - 1'),
    ('f', 'g(x) + x', 'g(x)'),
    ('C.g', 'return 1', 'return 2'),
  ],
)
def test_it_is_planted_where_it_says(function, old, new):
  text = planted(function, old, new)
  assert text == TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
  ('function', 'old', 'new', 'why'),
  [
    ('h', 'x', 'y', "m defines no 'h' there"),
    ('f', 'x + 2', 'x', 'stands there 0 times, not once'),
    ('f', 'return', 'yield', 'stands there 2 times, not once'),
    ('f.g', 'y + 1', 'y +', 'is no Python'),
    ('f.g', 'y + 1', '(y + 1)', 'changes nothing'),
  ],
)
def test_what_does_not_apply_is_said(function, old, new, why):
  with pytest.raises(ValueError, match=re.escape(why)):
    planted(function, old, new)
