"""What a run writes, and with which tracker."""

import types

from agentrl.configs import grpo
from agentrl.run import describe, outputs, workdir
from agentrl.run.check import validate
from tests.log import fake_wandb

runs = fake_wandb.runs  # a fixture


def test_a_config_asks_for_it(runs, tmp_path, monkeypatch):
  monkeypatch.setattr(describe, 'header', lambda s, workdir: {})
  c = grpo.get_config('tiny')
  setup = types.SimpleNamespace(config=c)
  outputs.open_writer(setup, str(tmp_path), None).close()
  assert not runs
  c.log.wandb = 'mine'
  validate.log(c)
  outputs.open_writer(setup, str(tmp_path), None).close()
  assert runs[0].settings['config']['method'] == 'grpo'


def test_each_seed_keeps_its_config(tmp_path, monkeypatch):
  monkeypatch.setattr(outputs, 'open_writer', lambda *given: None)
  seeds = {}
  for seed in (3, 4):
    c = grpo.get_config('tiny')
    c.seed = seed
    seeds[str(tmp_path / f'{seed}')] = types.SimpleNamespace(config=c)
  outputs.RunOutputs(
    None, [*seeds.values()], [*seeds], [], [None, None], [lambda: None] * 2
  )
  for folder, s in seeds.items():
    assert workdir.text_of(workdir.read_config(folder)) == workdir.text_of(
      s.config
    )


def test_a_seed_that_is_ahead_waits():
  """Nothing of it is written until the others come to its step."""
  book = outputs.RunOutputs.__new__(outputs.RunOutputs)
  book._resumed = [None, 4, 5]
  assert list(book._seeds_at(5)) == [0, 1]


def test_a_seed_whose_evaluation_was_cut_gets_its_row():
  book = outputs.RunOutputs.__new__(outputs.RunOutputs)
  book._resumed = [4, 4, 5]
  lacks = {4: False}
  book._writers = [
    types.SimpleNamespace(evaluated=lambda step: True),
    types.SimpleNamespace(evaluated=lacks.get),
    types.SimpleNamespace(evaluated=lambda step: True),
  ]
  assert not book.evaluated(4)
  assert list(book._seeds_at(4, 'eval')) == [1]
  assert list(book._seeds_at(4, 'rl')) == []
  lacks[4] = True
  assert book.evaluated(4)
