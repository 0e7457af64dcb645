"""ARMAP: what its reward model learns from, and searches by it."""

import chex
import jax
import numpy as np
import pytest

from agentrl import loop
from agentrl.configs import armap
from agentrl.configs import stages as stage_list
from agentrl.dataset import mixture
from agentrl.lab.search import command
from agentrl.learner import update as update_lib
from agentrl.log import metrics
from agentrl.run import build, placement, runner
from agentrl.run.stage import sft_stages, sources, stored_sft
from tests import errors
from tests.dataset import hindsight_test as explored
from tests.integration import half_good
from tests.integration.staged_methods_test import households
from tests.lab.search.command_test import success

SIZES = dict(width=16, layers=1, heads=4, kv_heads=4, head_dim=4, mlp=16)


def small(folder):
  c = armap.get_config('tiny')
  c.data = str(folder)
  c.model.update(SIZES)
  c.rollout.update(dict(batch=16, group_size=4, slots=8))
  c.sft.batch = c.micro_batch = 16
  c.env.update(dict(train=16, test=4))
  return c


@pytest.fixture(scope='module')
def judge(tmp_path_factory):
  """The experiment of the stage that fits the reward model."""
  c = small(tmp_path_factory.mktemp('data'))
  plans = {x.name: x.config for x in stage_list.plans(c)}
  return build.experiment(plans['judge'])


def begun(s):
  stage = sft_stages.sft_stage(s, 0, 2, None, 'judge')  # plays nothing
  state = stage.begin(update_lib.init(s.algorithm, jax.random.key(0)))
  moved = jax.tree.map(lambda x: x + 0.05, state.params['reward'])
  return stage, state.replace(params=state.params | {'reward': moved})


def batches(s, xs, steps=2):
  """Batches of the source `triplets` made of what was explored."""
  made = sources.edited(s, 'triplets', xs)
  counts = np.full((steps, 1), s.config.sft.batch // 2)
  read = {'triplets': lambda begins: mixture.Listed(made)}
  reader = sft_stages.MixtureReader(s, 0, steps, read, counts)
  reader.open(0)
  return [stored_sft.batch(s, *reader.read(i)) for i in range(steps)]


def updated(s, xs):
  """States before and behind two updates, and what they told."""
  with placement.on_mesh(s.config):
    stage, state = begun(s)
    before, told = jax.device_get(state.params), []
    step = loop.jit_update(stage.algorithm, update_lib.update)
    for batch in batches(s, xs):
      state, more, _ = step(state, batch)
      told.append(jax.device_get(more))
    return before, jax.device_get(state.params), told


@pytest.mark.slow
def test_only_the_reward_model_learns(judge):
  before, after, told = updated(judge, explored.explored())
  chex.assert_tree_all_finite(told)
  assert set(before) == {'policy', 'reward'}
  chex.assert_trees_all_equal(before['policy'], after['policy'])
  with pytest.raises(AssertionError):
    chex.assert_trees_all_equal(before['reward'], after['reward'])


@pytest.mark.slow
def test_the_loss_is_that_of_bradley_and_terry(judge):
  """In float64, of the head's value before the last token that was said."""
  s = judge
  with placement.on_mesh(s.config):
    _, state = begun(s)
    batch = batches(s, explored.explored())[0]
    apply = s.algorithm.context.modules['reward'].apply
    out = apply(state.params['reward'], batch.rows, ('value',))
    rows, value = jax.device_get((batch.rows, out.value[..., 0]))
  _, _, told = updated(s, explored.explored())
  score = np.full(len(batch.outcome), np.nan)
  for b in range(len(score)):
    at = np.argwhere(rows.sampled & (rows.traj == b))
    score[b] = value[tuple(at[-1])]
  d = score[::2] - score[1::2]
  assert np.all(np.asarray(batch.outcome).reshape(-1, 2) == [1, 0])
  assert np.ptp(d) > 0
  loss = np.mean(np.logaddexp(0, -d))
  got = {k: a / b for k, (a, b) in told[0].items() if 'reward_model' in k}
  np.testing.assert_allclose(got['reward_model/loss'], loss, rtol=1e-5)
  right = np.mean((d > 0) + 0.5 * (d == 0))
  np.testing.assert_allclose(got['reward_model/pair_accuracy'], right)


@pytest.mark.slow
def test_rewards_of_the_world_change_nothing(judge):
  xs = explored.explored()
  others = [
    x._replace(
      outcome=1 - x.outcome,
      turns=tuple(t._replace(reward=9.0, terms={'env': 9.0}) for t in x.turns),
    )
    for x in xs
  ]
  one, other = (updated(judge, x)[1] for x in (xs, others))
  chex.assert_trees_all_equal(one, other)


def test_what_is_read_asks_for_what_was_done(judge):
  """Fails without relabelling: the config's own edits are applied."""
  xs, family = explored.explored(), explored.FAMILY
  made = sources.edited(judge, 'triplets', xs)
  given = {explored.texts(x, 'context')[0] for x in xs}
  asked = []
  for x in made:
    read = explored.texts(x, 'context')
    said = explored.texts(x, 'message')[-1].startswith('done')
    held = family.fulfils(read, read[0].split('\n')[1])
    assert x.outcome == float(said and held)
    asked.append(read[0])
  assert len({*asked} - given) > len({*asked}) / 2


@pytest.mark.slow
def test_a_run_and_its_search(tmp_path, monkeypatch):
  """Explores, fits, and is searched by every value that needs no truth."""
  half_good.plays(monkeypatch, households)
  c = small(tmp_path / 'data')
  c.sft.steps, c.eval.episodes, c.rollout.max_turns = 2, 8, 6
  c.rollout.batch = 32
  for stage in c.stage.values():
    stage.steps = 2
  run = str(tmp_path / 'run')
  runner.run(c, run)
  rows = metrics.read(str(tmp_path / 'run' / 'metrics.jsonl'))
  fitted = [
    x for x in rows if x.get('stage') == 'judge' and x['phase'] == 'sft'
  ]
  assert len(fitted) == 2
  assert all(0 <= x['reward_model/pair_accuracy'] <= 1 for x in fitted)
  how = dict(calls=8, tasks=2, logged=0)
  values = 'mean_likelihood,likelihood,random,learned_ends'
  text = command.search_run(run, ['best_of_n', 'mcts'], evaluator=values, **how)
  for value in values.split(','):
    for name in ('best_of_n', 'mcts'):
      assert 0 <= success(text, f'{name} by {value}') <= 100
  command.search_run(run, ['lookahead'], evaluator='learned', **how)
  with errors.raises(ValueError, '--evaluator lookahead learned_ends'):
    command.search_run(run, ['lookahead'], evaluator='learned_ends', **how)
