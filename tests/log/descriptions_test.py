"""Every metric of a component is described."""

import ast
import pathlib

import pytest

from agentrl.log import descriptions

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize('folder', ['loss', 'signal', 'advantage'])
def test_every_metric_of_a_component_is_described(folder):
  """Read from the dicts called metrics."""
  scopes = {'loss': 'ppo/', 'signal': 'prm/', 'advantage': 'advantage/a/'}
  names = set()
  for path in sorted((ROOT / 'agentrl' / folder).glob('*.py')):
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
      if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Dict)
        and ast.unparse(node.targets[0]) == 'metrics'
      ):
        names |= {
          x.value for x in node.value.keys if isinstance(x, ast.Constant)
        }
  assert len(names) > 2
  lacking = [
    name
    for name in sorted(names)
    if not descriptions.describe(name if '/' in name else scopes[folder] + name)
  ]
  assert lacking == []


def test_special_names_stand_before_general_ones():
  """A pattern behind one that takes its names would never describe any."""
  names = [x.replace('*', 'x') for x in descriptions.METRICS]
  for name, description in zip(
    names, descriptions.METRICS.values(), strict=True
  ):
    assert descriptions.describe(name) == description
    assert description.meaning
  assert descriptions.describe('no_such') is None
