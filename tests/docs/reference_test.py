"""Generated reference pages are what the generators make of what is here."""

import fnmatch
import functools
import inspect
import re
import subprocess
import sys

import numpy as np
import pytest

from agentrl import domain, registry
from agentrl.log import descriptions
from agentrl.run.check import validate
from docs.generate import batch, components, metrics, rewards
from tests import errors


@functools.cache
def made(module) -> str:
  return module.page()


@pytest.mark.parametrize('module', [batch, components, metrics, rewards])
def test_pages_are_up_to_date(module):
  with open(module.PAGE, encoding='utf-8') as f:
    name = module.__name__
    assert f.read() == made(module), f'run `python -m {name}`'


def test_the_page_of_commands_is_up_to_date():
  """In a process of its own: mains define the same flags."""
  code = 'from docs.generate import commands; print(commands.page(), end="")'
  done = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=True
  )
  with open('docs/COMMANDS.md', encoding='utf-8') as f:
    assert f.read() == done.stdout, 'run `python -m docs.generate.commands`'


def test_every_component_has_a_sentence_and_a_row():
  page = made(components)
  for slot in registry.SLOTS:
    assert components.ours(slot), slot
    for piece in components.ours(slot):
      assert inspect.getdoc(piece.f), f'{slot} {piece.name} has no docstring'
      for name in piece.defaults:
        assert f'| `{piece.name}` | `{name}` |' in page


def test_every_hyper_parameter_of_a_reward_has_a_meaning():
  page = made(rewards)
  for piece in components.ours('reward'):
    assert f'### {piece.name}\n' in page
    for name in piece.defaults:
      assert piece.meanings[name], f'{piece.name}: {name}'


def test_the_example_of_rewards_runs_as_it_stands():
  """It fits together, and its table is what its pieces pay."""
  page = made(rewards)
  (code,) = re.findall(r'```python\n(.*?)```', page, re.DOTALL)
  names: dict = {}
  exec(code, names)
  c = names['get_config']('tiny')
  validate.config(c)
  paid = [
    [float(x) for x in re.findall(r'-?\d\.\d\d', line)]
    for line in page.splitlines()
    if re.match(r'\| [a-z ,]+ \| -?\d\.\d\d', line)
  ]
  assert np.allclose(
    paid, [rewards.earned(c, x) for x in rewards.CASES], atol=0.006
  )
  np.testing.assert_allclose(
    paid,
    [
      [0, 0, 0],
      [0.1, 0, 0.1],
      [0.2, 0, 0.2],
      [1, -0.06, 0.94],
      [1, -0.5, 0.5],
    ],
  )
  c.hp.reward.priced.terms = ('seconds',)
  with errors.raises(ValueError, 'c.reward priced term:seconds'):
    validate.config(c)


def test_papers_are_those_of_the_function_before_those_of_its_module():
  assert components.papers(registry.get('link', 'scale')) == ['2402.03300']
  assert components.papers(registry.get('loss', 'dppo_tv')) == ['2602.04879']
  assert components.papers(registry.get('reward', 'env')) == []


def test_every_field_of_a_batch_has_a_meaning():
  for cls in batch.CLASSES:
    texts = domain.comments(cls) | batch.LONGER.get(cls, {})
    for name in inspect.get_annotations(cls):
      assert texts[name].rpartition('  ')[2], f'{cls.__name__}.{name}'


def test_terms_and_columns_are_those_that_components_provide():
  assert set(batch.MEANINGS) == batch.provided()
  assert batch.providers('term:greedy_return') == ['collect `greedy_companion`']


def test_every_metric_stands_once_and_the_first_line_that_fits_describes_it():
  sections = [scopes for _, scopes, _ in metrics.SECTIONS]
  ordered = [
    name
    for scopes in sections
    for name in descriptions.METRICS
    if metrics.scope(name) in scopes
  ]
  assert sorted(ordered) == sorted(descriptions.METRICS)
  for name in descriptions.METRICS:
    example = name.replace('*', 'x')
    first = next(x for x in ordered if fnmatch.fnmatchcase(example, x))
    assert descriptions.METRICS[first] == descriptions.describe(example)
