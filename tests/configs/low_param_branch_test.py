"""Low-parameter agents: what a batch of the tuning holds."""

import contextlib

import numpy as np
import pytest

from agentrl.configs import low_param_branch, stages
from agentrl.run import build
from agentrl.run.check import validate
from agentrl.run.play import sampler
from agentrl.run.stage import stages as run_stages

STEPS = 3


def batches(folder, **weights):
  """First observations and last messages of the batches of the tuning."""
  c = low_param_branch.get_config('tiny')
  c.data, c.sft.batch, c.micro_batch = str(folder), 8, 8
  c.env.update(dict(train=12, test=2))
  c.stage.general.env.update(dict(train=12))
  for stage in c.stage.values():
    stage.steps = STEPS
  for name, weight in weights.items():
    c.mix[name].weight = weight
  s = build.experiment(validate.config(c))
  built = build.stage_experiments([s], stages.plans(s.config))
  with contextlib.ExitStack() as stack:
    players = sampler.open_samplers(stack, built, lambda: None, str(folder))
    mine = {name: (of[0], players[name]) for name, of in built.items()}
    *_, tune = run_stages.make_stages(s, c.stages, mine, str(folder))
    assert tune.kind == 'sft'
    tune.open(tune.start)
    out = []
    for step in range(tune.start, tune.end):
      record, _ = tune.task(None, step)
      last = np.asarray(record.valid).sum(axis=1) - 1
      at = np.arange(len(last))
      first = _texts(s, record.context[:, 0], record.context_len[:, 0])
      end = _texts(s, record.message[at, last], record.message_len[at, last])
      out.append([*zip(first, end, strict=True)])
  return out


def _texts(s, tokens, length):
  return [
    s.tokenizer.decode(ids[:n].tolist())
    for ids, n in zip(np.asarray(tokens), np.asarray(length), strict=True)
  ]


@pytest.mark.parametrize(
  ('weights', 'agents'),
  [({}, 6), ({'general': 3.0}, 4), ({'general': 0.0}, 8), ({'agent': 0.0}, 0)],
)
def test_a_batch_holds_both_kinds_at_their_shares(tmp_path, weights, agents):
  for batch in batches(tmp_path, **weights):
    acts = ['want' in first for first, _ in batch]
    assert (sum(acts), len(acts)) == (agents, 8)
    for (_, end), agent in zip(batch, acts, strict=True):
      assert ('done' in end) == agent


def test_general_data_come_first_and_no_reward_is_used():
  c = low_param_branch.get_config()
  first, then = stages.plans(c)
  assert (first.config.env.name, then.config.env.name) == (
    'errands',
    'household',
  )
  assert {first.kind, then.kind} == {'sft'}
  assert not first.config.sft.mix
