"""Methods on hosts, each by what it is named for: own stages, scripted words.

What attempts say is written down; worlds, rewards, advantages and updates are
those of the config.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop
from agentrl.configs import (
  aegis_errors,
  multicritique,
  preflexor,
  proactive_agent,
)
from agentrl.configs import stages as stage_list
from agentrl.env.worlds import critiques, event_stream, injected_errors
from agentrl.learner import update as update_lib
from agentrl.loss import ppo
from agentrl.model import microbatch
from agentrl.rollout import pack
from agentrl.rollout.keys import Stream, step_key
from agentrl.run import build
from agentrl.run.experiment import Experiment
from agentrl.run.play import sampler
from agentrl.run.stage import sft_stages, stages
from agentrl.run.stage.base import Stage
from agentrl.task.base import make_attempts
from agentrl.types import Batch, LossInputs, Outputs, Span, TrainState
from tests.integration import proposing
from tests.integration.judged_methods_test import small

Say = Callable[[Any, int], Sequence[str]]  # task, place in the group


class Played(NamedTuple):
  """A batch that a stage has collected of scripted attempts."""

  s: Experiment
  stage: Stage
  state: TrainState
  batch: Batch
  tasks: list[Any]  # of each attempt
  seeds: Sequence[int]  # of its environment


def experiment(method, folder, stage, **env):
  c = small(method.get_config('tiny'), folder)
  c.rollout.update(dict(batch=16, group_size=4, slots=16))
  c.env.update(env)
  plans = {x.name: x.config for x in stage_list.plans(c)}
  return build.experiment(plans[stage])


def played(s: Experiment, say: Say) -> Played:
  """Collects the first batch of an RL stage."""
  with (
    pytest.MonkeyPatch.context() as patch,
    sampler.open_sampler(s) as playing,
  ):
    stage = stages.rl_stage(s, 0, 2, playing)
    state = update_lib.init(s.algorithm, jax.random.key(0))
    more = jax.tree.map(lambda x: 1.5 * x, state.params['policy'])
    state = stage.begin(state.replace(params=state.params | {'policy': more}))
    attempts = stage.task(state, 0)
    tasks = [s.train.tasks[int(i)] for i in attempts.task]
    size = s.config.rollout.group_size
    said = {b: say(task, b % size) for b, task in enumerate(tasks)}
    proposing.says(patch, said)
    batch, _ = stage.collect(state, attempts, 0)
  key = step_key(state.key, Stream.ROLLOUT, 0)
  seeds = pack.drawn(attempts, key, s.world.limits).seeds
  return Played(s, stage, state, batch, tasks, [int(x) for x in seeds])


def paid(batch):
  """Rewards of whole trajectories, by group: [groups, G]."""
  total = np.asarray(batch.turns.reward).sum(axis=1)
  group = np.asarray(batch.ids['group'])
  assert (np.diff(group) >= 0).all()
  return total.reshape(group.max() + 1, -1)


def standardized(reward):
  """A = (R - mean) / std of each group; 0 where all are equal."""
  gap = reward - reward.mean(axis=1, keepdims=True)
  std = reward.std(axis=1, ddof=1, keepdims=True)
  return np.where(std > 1e-6, gap / np.where(std > 1e-6, std, 1), 0)


def advantage(x: Played):
  credit, _ = update_lib.compute_advantage(x.s.algorithm, x.batch, {})
  return np.asarray(credit.turn)[:, 0].reshape(paid(x.batch).shape)


def moved(x: Played):
  """What an update of the stage adds to each message's log-prob: [groups, G].

  The batch is as if the policy had sampled it.
  """
  rows = x.batch.rows
  apply = x.s.algorithm.context.modules['policy'].apply

  def read(params):
    n = x.s.config.micro_batch
    return microbatch.forward(apply, params, x.batch.rows, ('logp',), n).logp

  def whole(logp):
    own = np.where(rows.sampled, logp, 0)
    traj = np.asarray(rows.traj)
    sums = [own[traj == b].sum() for b in range(len(x.tasks))]
    return np.array(sums).reshape(paid(x.batch).shape)

  read = jax.jit(read)
  before = read(x.state.params['policy'])
  sampled = jnp.where(rows.sampled, before, 0)
  batch = x.batch.replace(rows=rows.replace(logp=sampled))
  step = loop.jit_update(x.stage.algorithm, update_lib.update)
  state, _, _ = step(jax.tree.map(jnp.copy, x.state), batch)
  return whole(read(state.params['policy'])) - whole(before)


EXACT, SILENT, SPOILING, EVERY = range(4)  # critiques of a group


def critique(task, place):
  """What the faults are; none; a right line alone; every line."""
  lines = range(1, len(task['solution']) + 1)
  wrong = {i for i in lines if np.ptp(task['solution'][i - 1])}
  right = [i for i in lines if i not in wrong][:1]
  return [critiques.written((wrong, (), right, lines)[place])]


def revised(task, said, seed, family):
  """What becomes of a solution, reviser after reviser, line after line."""
  rng, worth = np.random.default_rng(seed), []
  named = {int(x) for x in said.split() if x != 'none'}
  for _ in range(family.revisers):
    able = rng.random(len(task['solution'])) < family.skill
    right = [
      float(able[i] if i + 1 in named else a == b)
      for i, (a, b) in enumerate(task['solution'])
    ]
    worth.append(np.mean(right))
  return worth


@pytest.mark.slow
def test_multicritique_pays_what_several_revisers_make_of_a_critique(tmp_path):
  """With one reviser no reward would lie between those of two of them."""
  s = experiment(multicritique, tmp_path, 'rl')
  x = played(s, critique)
  n = s.world.family.lines
  each = [
    revised(task, *critique(task, b % 4), seed, s.world.family)
    for b, (task, seed) in enumerate(zip(x.tasks, x.seeds, strict=True))
  ]
  reward = paid(x.batch)
  want = np.array([np.mean(worth) for worth in each]).reshape(reward.shape)
  np.testing.assert_allclose(reward, want, atol=1e-6)
  between = np.abs(n * reward - np.round(n * reward)) > 1e-3
  assert between.any()
  # Another critique of the same solution is paid otherwise.
  faulty = np.array([critique(t, EXACT) != ['none'] for t in x.tasks[::4]])
  assert faulty.any()
  assert (reward[faulty, EXACT] > reward[faulty, SILENT]).all()
  assert (reward[:, SPOILING] <= reward[:, SILENT]).all()
  np.testing.assert_allclose(advantage(x), standardized(reward), atol=1e-3)
  assert np.sum(standardized(want) * moved(x)) > 0


def answer(task, place):
  """The label; one half of it; neither; none, or a mistake where none is."""
  label = injected_errors.label(task).split()
  kinds = [k for k in injected_errors.KINDS if list(k) != label]
  half = [k for k in kinds if k[0] == label[0] or k[1] == label[-1]]
  neither = [k for k in kinds if k[0] != label[0] and k[1] != label[-1]]
  no = ['none'] if task['error'] else neither[0]
  return [' '.join((label, (half or neither)[0], neither[-1], no)[place])]


@pytest.mark.slow
def test_aegis_pays_for_the_injected_error_and_learns_to_name_it(tmp_path):
  x = played(experiment(aegis_errors, tmp_path, 'rl', clean=0.5), answer)
  failed = np.array([task['error'] is not None for task in x.tasks[::4]])
  assert 0 < failed.sum() < len(failed)
  want = np.zeros((len(failed), 4))
  want[:, 0], want[failed, 1] = 1.0, 0.5
  np.testing.assert_allclose(paid(x.batch), want)
  np.testing.assert_allclose(advantage(x), standardized(want), atol=1e-3)
  change = moved(x)
  assert np.sum(standardized(want) * change) > 0
  assert change[:, 0].mean() > change[:, 2:].mean()


def offers(family, task):
  """By hand: the offer of most expected pay at each turn, or to wait."""
  chance, needs, out = event_stream.habits(family), event_stream.NEEDS, []
  for t, event in enumerate(task['events']):
    p = chance[task['events'][t - 1] if t else family.events, event]
    pay = p - family.disturbance * (1 - p)
    out.append('wait' if pay.max() <= 0 else f'offer {needs[pay.argmax()]}')
  return out


def test_proactive_agent_imitates_timely_offers_and_silence(tmp_path):
  """Both have weight; without a price of disturbance it would never wait."""
  s = experiment(proactive_agent, tmp_path, 'sft')
  family = s.world.family
  with sampler.open_sampler(s) as playing:
    stage = sft_stages.sft_stage(s, 0, 2, playing)
    state = update_lib.init(s.algorithm, jax.random.key(0))
    index, scripts = stage.task(state, 0)
    batch, _ = stage.collect(state, (index, scripts), 0)
  batch = jax.device_get(batch)
  rows, said = batch.rows, set()
  for b, i in enumerate(index):
    for t, want in enumerate(offers(family, s.train.tasks[int(i)])):
      here = rows.sampled & (rows.traj == b) & (rows.turn == t)
      text = s.tokenizer.decode(rows.tokens[here][:-1].tolist())
      assert text == want
      assert (rows.weight[here] == 1).all()
      said.add(text.split()[0])
  assert said == {'offer', 'wait'}


def proposal(task, place):
  """What is needed; an offer every turn; silence; offers of the other need."""
  needed = [k != event_stream.NONE for k in task['needs']]
  true = [event_stream.write(k) for k in task['needs']]
  other = [
    event_stream.write(1 - k) if x else 'wait'
    for k, x in zip(task['needs'], needed, strict=True)
  ]
  n = len(needed)
  return (true, ['offer sort'] * n, ['wait'] * n, other)[place]


def test_proactive_agent_is_measured_by_what_users_accept(tmp_path):
  """A wrong offer is refused and costs; silence where there is a need, too."""
  s = experiment(proactive_agent, tmp_path, 'sft')
  family, index = s.world.family, np.repeat(np.arange(4), 4)
  tasks = [s.train.tasks[i] for i in index]
  with (
    pytest.MonkeyPatch.context() as patch,
    sampler.open_sampler(s) as playing,
  ):
    said = {b: proposal(task, b % 4) for b, task in enumerate(tasks)}
    proposing.says(patch, said)
    params = update_lib.init(s.algorithm, jax.random.key(0)).params['policy']
    attempts = make_attempts(index, 4, family.turns, 1.0)
    record = playing.play(params, attempts, jax.random.key(1))
  price = family.disturbance
  assert price > 0
  for b, task in enumerate(tasks):
    offer = [x.startswith('offer') for x in said[b]]
    needed = [k != event_stream.NONE for k in task['needs']]
    right = [
      x and message == event_stream.write(k)
      for x, message, k in zip(offer, said[b], task['needs'], strict=True)
    ]
    want = [y - price * (x - y) for x, y in zip(offer, right, strict=True)]
    got = np.asarray(record.reward)[b]
    np.testing.assert_allclose(got * family.turns, want, atol=1e-6)
    told = sum(offer) + sum(needed)
    f1 = 2 * sum(right) / told if told else 1.0
    np.testing.assert_allclose(record.outcome[b], f1, atol=1e-6)
  f1 = np.asarray(record.outcome).reshape(4, 4).mean(axis=0)
  assert f1[0] == 1
  assert f1[0] > f1[1] > 0
  assert f1[3] <= f1[2] < f1[1]


RIGHT, WRONG, HASTY, THOUGHTLESS = range(4)  # attempts at a question


def researched(demos):
  """Say: the expert's messages, with a wrong answer, at once, or unthought."""

  def say(task, place):
    right = demos[task['question']]
    wrong = right[-1].replace(task['answers'][0], 'Nobody')
    bare = [x.rpartition('</think>')[2] for x in right]
    begun = right[0].rpartition('</think>')[0] + '</think>'
    answer = wrong.rpartition('</think>')[2]
    return (right, [*right[:-1], wrong], [begun + answer], bare)[place]

  return say


@pytest.mark.slow
@pytest.mark.parametrize(
  ('stage', 'loss', 'thinking'),
  [('integrate', 'orpo', True), ('reason', 'dpo', False)],
)
def test_preflexor_prefers_right_answers_and_then_masks_thoughts(
  tmp_path, stage, loss, thinking
):
  """Odds of all that was said first, then no thought of either half."""
  s = experiment(preflexor, tmp_path, stage)
  demos = {
    task['question']: said
    for task, said in zip(s.train.tasks, s.train.demonstration, strict=True)
  }
  x = played(s, researched(demos))
  params = x.state.params  # pi_ref is the policy as the stage begins
  jax.tree.map(
    np.testing.assert_array_equal, params['reference'], params['policy']
  )
  alg = x.s.algorithm
  batch = alg.curate[0](x.batch)
  pairs = jax.device_get(batch.pairs)
  on = pairs.weight > 0
  win, lose = pairs.win[on, 0], pairs.lose[on, 0]
  assert len(win) == len(x.tasks) // 4
  assert (win // 4 == lose // 4).all()
  assert {*(win % 4).tolist()} <= {RIGHT, THOUGHTLESS}
  assert {*(lose % 4).tolist()} <= {WRONG, HASTY}
  assert [*alg.losses] == [loss]
  grad, rows = pulled(alg, batch), jax.device_get(batch.rows)
  thought = rows.sampled & (rows.span == Span.THOUGHT)
  for half in (win, lose):
    own = np.isin(rows.traj, half) & rows.sampled
    assert (own & thought).any()
    assert (grad[own & ~thought] != 0).all()
    assert (grad[own & thought] != 0).all() == thinking
    assert (grad[own & thought] != 0).any() == thinking


def pulled(alg, batch):
  """The gradient of a stage's loss by the log-prob of each token: [N, T]."""
  ((name, of),) = alg.losses.items()
  r, shape = np.random.default_rng(0), batch.rows.tokens.shape
  logp, ref = jnp.asarray(-np.abs(r.normal(size=(2, *shape))), jnp.float32)
  signals = {'ref_logp': ref}

  @jax.jit
  def pull(logp):
    credit, _ = update_lib.compute_advantage(alg, batch, signals)
    x = LossInputs(
      outputs=Outputs(),
      batch=batch,
      credit=credit,
      signals=signals,
      key=jax.random.key(0),
    )
    weight = ppo.weights(name, x)

    def loss(logp):
      value, _ = of(x.replace(outputs=Outputs(logp=logp)))
      return jnp.sum(weight * value)

    return jax.grad(loss)(logp)

  return np.asarray(pull(logp))
