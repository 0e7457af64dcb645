"""docs/GATEWAY.md is run as it stands, and names what there is."""

import inspect
import pathlib
import re

import pytest

from agentrl.configs import grpo
from agentrl.env import base
from agentrl.env.files.program import Program
from agentrl.gateway.app import GatewayLimits

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / 'docs/GATEWAY.md').read_text(encoding='utf-8')
(CODE,) = re.findall(r'```python\n(.*?)```', TEXT, re.DOTALL)
(PRINTED,) = re.findall(r'^prints\n\n```\n(.*?)```', TEXT, re.DOTALL | re.M)
ALONE = ('minimal_grpo',)  # needs no gateway
EXAMPLES = sorted(
  x.stem for x in (ROOT / 'examples').glob('*.py') if x.stem not in ALONE
)
SHARED = ('__init__', 'calculator')


def test_it_prints_what_it_says(capsys):
  exec(CODE, {'__name__': '__main__'})
  assert capsys.readouterr().out == PRINTED


def test_the_table_has_all_examples():
  rows = re.findall(r'^\| \[`(\w+)`\]\(../examples/(\w+).py\)', TEXT, re.M)
  assert sorted(x for x, _ in rows) == [x for x in EXAMPLES if x not in SHARED]
  assert all(name == file for name, file in rows)


@pytest.mark.parametrize('name', EXAMPLES)
def test_an_example_is_short(name):
  text = (ROOT / 'examples' / f'{name}.py').read_text(encoding='utf-8')
  assert len(text.splitlines()) <= 40


def test_fields_and_limits_are_those_of_the_code():
  c = grpo.get_config('env=program')
  for path in re.findall(r'(?:--config\.|`)((?:env|rollout|host)\.\w+)', TEXT):
    node = c
    for name in path.split('.'):
      node = node[name]
  limits = GatewayLimits()
  assert limits.body == 8 << 20
  assert limits.connections == 1024
  assert c.env.branches == 2


def test_its_tasks_are_there():
  family = Program(path=str(ROOT / 'examples/questions.jsonl'))
  assert sum(base.sizes(family).values()) == 36
  assert 'address, key, task' in TEXT
  assert 'play(address, key, task)' in inspect.getdoc(
    inspect.getmodule(Program)
  )
