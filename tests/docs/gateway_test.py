"""docs/GATEWAY.md is run as it stands, and names what there is."""

import inspect
import re

from agentrl.configs import grpo
from agentrl.env import base
from agentrl.env.files.program import Program
from agentrl.gateway.app import GatewayLimits
from tests.docs.pages import ROOT, Page

PAGE = Page('docs/GATEWAY.md')
TEXT = PAGE.text
# Which needs no gateway, and what the others share.
OTHERS = {'minimal_grpo', 'guess', '__init__', 'calculator'}


def test_it_prints_what_it_says(capsys):
  exec(''.join(PAGE.code), {'__name__': '__main__'})
  assert capsys.readouterr().out == PAGE.printed


def test_the_table_has_all_examples():
  rows = re.findall(r'^\| \[`(\w+)`\]\(../examples/(\w+).py\)', TEXT, re.M)
  examples = {x.stem for x in (ROOT / 'examples').glob('*.py')}
  assert {x for x, _ in rows} == examples - OTHERS
  assert all(name == file for name, file in rows)


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
