"""docs/STAGES.md: its configs fit together, and train."""

import re

import pytest

from agentrl import registry
from agentrl.configs import stages
from agentrl.configs.config import declared
from agentrl.run import config_file, runner
from agentrl.run.check import validate
from tests.docs.pages import Page
from tests.run.small_configs import SMALL

PAGE = Page('docs/STAGES.md')
FILES = PAGE.files
COMMANDS = [
  line
  for block in PAGE.blocks('bash')
  for line in block.replace('\\\n', '').strip().split('\n')
]
LISTS = {
  'my_rounds.py': ('sft', 'sample_1', 'fit_1', 'sample_2', 'fit_2'),
  'my_mixture.py': ('sft', 'search', 'distil', 'polish'),
  'my_worlds.py': ('warm', 'boxes', 'lake'),
}


def config(name, folder, arg=''):
  path = folder / name
  path.write_text(FILES[name], encoding='utf-8')
  return config_file.load(f'{path}:{arg}')


def changed(command, folder):
  """The config of a command of the page, with its flags."""
  given = dict(re.findall(r'--(\S+?)=(\S+)', command))
  c = config(given.pop('config'), folder)
  del given['workdir']
  fields = {k.removeprefix('config.'): v for k, v in given.items()}
  return config_file.change(
    c,
    {k: v if v.isalpha() else float(v) for k, v in fields.items()},
  )


def test_the_page_has_three_recipes():
  assert set(FILES) == set(LISTS)
  assert {re.search(r'config=(\S+)', x)[1] for x in COMMANDS} == set(LISTS)


@pytest.mark.parametrize('command', COMMANDS)
def test_every_command_is_of_a_config_that_fits(command, tmp_path):
  c = changed(command, tmp_path)
  validate.config(c)
  name = re.search(r'config=(\S+)', command)[1]
  assert tuple(x.name for x in stages.plans(c)) == LISTS[name]
  (flags,) = {*re.findall(r'stage\.(\w+)\.(\S+)=(\S+)', command)} or {()}
  if flags:
    plan = next(x for x in stages.plans(c) if x.name == flags[0])
    assert flags[2] in (plan.kind, str(plan.config.rollout.temperature))


def test_every_kind_of_source_is_in_the_table():
  of = declared()['mix.*.kind'].domain
  assert set(re.findall(r'^\| `(\w+)` \|', PAGE.text, re.M)) == set(of.words)
  assert registry.names('edit')


@pytest.mark.parametrize(
  'name',
  [
    pytest.param(x, marks=pytest.mark.nightly if i else pytest.mark.slow)
    for i, x in enumerate(FILES)
  ],
)
def test_recipes_train(name, tmp_path):
  """At a size at which nothing is solved, so that nothing is asked of it."""
  c = config(name, tmp_path, 'tiny')
  config_file.change(c, SMALL | {'data': str(tmp_path / 'data')})
  for source in c.mix.values():
    source.edits = ()
  for stage in c.stage.values():
    stage.steps = 1
  c.sft.steps = 1
  text = runner.run(c, str(tmp_path / 'run'))
  assert ', '.join(f'1 {x}' for x in LISTS[name]) in text
