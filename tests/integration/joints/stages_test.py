"""Stages of a run: which tasks with which keys, and what learns from them.

Iterations are made by the stages of a config. Who plays is made up where only
the tasks and keys count, and is the real rollout where the words do; networks
are tables where the stages' updates are held against loops.
"""

import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl import loop, mesh
from agentrl.configs import base
from agentrl.learner import update
from agentrl.nn import transformer
from agentrl.rollout import record as record_lib
from agentrl.run import build
from agentrl.run.play import jit_sampler
from agentrl.run.seed_axis import SeedAxis
from agentrl.run.stage import stages as stages_lib
from agentrl.types import Status
from tests import states
from tests.integration.joints import reference, toy
from tests.integration.joints.reference import Adam, Token, Trajectory

TRAIN, TEST = 12, 5
SFT, RL = 3, 4  # steps
CELLS, CHOICES = 4, 3


def config() -> ConfigDict:
  c = base.get_config('tiny,env=frozen_lake')
  c.update(dict(steps=RL, micro_batch=8, loss=('nll',)))
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=16)
  )
  c.env.update(dict(height=3, width=3, train=TRAIN, test=TEST))
  c.rollout.update(
    dict(
      batch=8,
      group_size=2,
      slots=4,
      max_turns=4,
      temperature=0.7,
      top_k=12,
      top_p=0.8,
    )
  )
  c.sft.update(dict(steps=SFT, batch=8, lr=0.05, warmup=2))
  c.eval.update(dict(episodes=10, temperature=0.3))
  c.log.update(dict(groups=0, eval_trajectories=0))
  c.advantage = ('episode',)  # which nll does not look at
  c.stream.episode = ('episode_return',)
  base.role(c, 'reference', kind='frozen')
  c.role.policy.update(dict(lr=0.1, final_lr_fraction=0.2, warmup=1, eps=1e-6))
  c.schedule.coef = ConfigDict({'nll': ('linear', 0.5, 0.1, 0)})
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)


@pytest.fixture(scope='module')
def setup(tmp_path_factory) -> build.Experiment:
  c = config()
  c.data = str(tmp_path_factory.mktemp('data'))
  return build.experiment(c)


def stages(s: build.Experiment, playing):
  names = 'sft', 'rl'
  built = dict.fromkeys(names, (s, playing))
  sft, rl = stages_lib.make_stages(s, names, built)
  assert (sft.start, sft.end, rl.start, rl.end) == (0, SFT, SFT, SFT + RL)
  return sft, rl


# Tasks and keys.


class Scribe:
  """Plays nothing and writes down what it was to play: [(what, tasks, key)]."""

  def __init__(self):
    self.calls: list[tuple[str, Any, tuple[int, ...]]] = []

  def note(self, what, attempts, key) -> None:
    bits = tuple(np.asarray(jax.random.key_data(key)).tolist())
    self.calls.append((what, attempts, bits))

  def replay(self, index, key):
    self.note('sft', index, key)

  def collect(self, policy, attempts, key, step):
    self.note('rl', attempts, key)
    return None, {}

  def play(self, policy, attempts, key):
    self.note('eval', attempts, key)
    record = record_lib.empty(len(attempts.task), 4, 1, 1, ())
    return record.replace(status=np.full(len(attempts.task), Status.FAILED))

  def demos(self, index):
    return index

  def update_service_params(self, params):
    pass

  def taken(self):
    return {}


def state_of(seed: int):
  """As much of a state as choosing tasks and keys looks at."""
  return states.state(params={'policy': {}}, key=jax.random.key(seed))


@pytest.fixture(scope='module')
def calls(setup):
  """Every iteration, with an evaluation before RL and after it."""
  scribe, state = Scribe(), state_of(0)
  sft, rl = stages(setup, scribe)
  evaluate = stages_lib.eval_hook(SeedAxis(), setup, None, scribe)
  for step in range(SFT):
    sft.collect(state, sft.task(state, step), step)
  evaluate(state, SFT)
  for step in range(SFT, SFT + RL):
    rl.collect(state, rl.task(state, step), step)
  evaluate(state, SFT + RL)
  return scribe.calls


def of(calls, what: str):
  return [(x, key) for name, x, key in calls if name == what]


def levels(setup, index) -> list[bytes]:
  """What the world would show of these tasks."""
  tasks = setup.world.tasks
  return [
    b''.join(np.asarray(tasks[n])[i].tobytes() for n in sorted(tasks))
    for i in index
  ]


def test_training_plays_the_training_tasks_and_no_others(setup, calls):
  demos = [x for x, _ in of(calls, 'sft')]
  tried = [x.task for x, _ in of(calls, 'rl')]
  train = set(levels(setup, range(TRAIN)))
  for index in (*demos, *tried):
    assert set(index) <= set(range(TRAIN))
    assert set(levels(setup, index)) <= train
  # Once in an epoch each: 24 of 12 by demonstrations, 4 of 12 by attempts.
  assert (
    np.bincount(np.concatenate(demos), minlength=TRAIN).tolist() == [2] * 12
  )
  first = np.concatenate([x[::2] for x in tried[:3]])
  assert sorted(first) == list(range(TRAIN))
  assert set(tried[0]) != set(tried[1])


def test_evaluation_plays_the_held_out_tasks_and_no_others(setup, calls):
  tried = [x.task for x, _ in of(calls, 'eval')]
  assert [len(x) for x in tried] == [8] * 4
  held_out = TRAIN + np.arange(16) % TEST
  for i in (0, 2):
    assert np.concatenate(tried[i : i + 2]).tolist() == held_out.tolist()
  train, test = (
    set(levels(setup, range(*at))) for at in ((0, TRAIN), (TRAIN, TRAIN + TEST))
  )
  assert len(train) == TRAIN
  assert len(test) == TEST
  assert not train & test
  for index in tried:
    assert set(levels(setup, index)) == test
  assert not set(setup.train.keys) & set(setup.test.keys)


def test_attempts_are_as_the_config_has_them(calls):
  for x, _ in of(calls, 'rl'):
    np.testing.assert_allclose(x.temperature, 0.7)
    assert x.limit.tolist() == [4] * 8
    assert x.group.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    np.testing.assert_array_equal(x.task[::2], x.task[1::2])
  for x, _ in of(calls, 'eval'):
    np.testing.assert_allclose(x.temperature, 0.3)
    assert x.limit.tolist() == [4] * 8


def test_no_two_iterations_share_a_key(setup, calls):
  keys = [key for _, _, key in calls]
  before, after = keys[SFT : SFT + 2], keys[-2:]
  assert before == after, 'evaluations draw the same, to be compared'
  assert len(set(keys)) == len(keys) - 2
  raw = tuple(np.asarray(jax.random.key_data(jax.random.key(0))).tolist())
  assert raw not in keys


def test_a_step_repeats_its_key_and_another_seed_has_its_own(setup, calls):
  def again(seed):
    scribe = Scribe()
    _, rl = stages(setup, scribe)
    for step in range(SFT, SFT + RL):
      rl.collect(state_of(seed), rl.task(state_of(seed), step), step)
    return [key for _, key in of(scribe.calls, 'rl')]

  keys = [key for _, key in of(calls, 'rl')]
  assert again(0) == keys
  assert not set(again(1)) & set(keys)


# Words.


@pytest.fixture(scope='module')
def real_batches(setup):
  """Batches of real rollouts: two steps at the same tasks, the first again."""
  playing = jit_sampler.JitSampler(setup)
  _, rl = stages(setup, playing)
  specs = setup.algorithm.context.modules['policy'].specs
  policy = mesh.init(specs, jax.random.key(3))
  policy['embed'] *= 12  # some words are much likelier than others
  state = state_of(0).replace(params={'policy': policy})
  tasks = rl.task(state, SFT)
  batches = [rl.collect(state, tasks, step)[0] for step in (SFT, SFT + 1, SFT)]
  return policy, tasks, jax.device_get(batches)


def test_messages_repeat_with_the_step_and_differ_between_steps(real_batches):
  _, _, (one, two, again) = real_batches
  jax.tree.map(np.testing.assert_array_equal, again, one)
  tokens = [x.rows.tokens[x.rows.sampled].tolist() for x in (one, two)]
  assert len(tokens[0]) > 40
  assert tokens[0] != tokens[1]


def test_what_is_seen_first_are_levels_of_the_training_tasks(
  setup, real_batches
):
  """Read off the rows: the cells of the lake, as tokens."""
  _, tasks, (batch, *_) = real_batches
  rows, words = batch.rows, setup.tokenizer
  env, world = setup.world.env, setup.world.tasks
  for b, task in enumerate(tasks.task):
    row = b * (rows.tokens.shape[0] // 8)  # of its first turn
    first = int(np.argmax(rows.sampled[row]))
    text = words.decode(rows.tokens[row, :first].tolist())
    _, obs = env.reset(None, {n: x[task] for n, x in world.items()})
    want = ''.join(env.pieces[i] for i in np.asarray(obs) if i >= 0)
    assert text.startswith(want)


def cut(logits: np.ndarray, k: int, p: float) -> np.ndarray:
  """Log-probs of the k likeliest, of them those that make up p; else -inf."""
  order = np.argsort(-logits)[:k]
  mass = np.exp(logits[order] - logits[order].max())
  mass /= mass.sum()
  inside = order[: int(np.searchsorted(np.cumsum(mass), p)) + 1]
  out = np.full(len(logits), -np.inf)
  out[inside] = logits[inside] - np.logaddexp.reduce(logits[inside])
  return out


def test_log_probs_are_those_before_the_config_cuts(setup, real_batches):
  """Of logits / 0.7 in the rollout and in the learner; draws are of the cut."""
  policy, _, (batch, *_) = real_batches
  rows, r = jax.tree.map(lambda x: x[:8], batch.rows), setup.config.rollout

  @jax.jit
  def read(policy, rows):
    hidden = transformer.forward(setup.shape, policy, rows.tokens, rows.seg)
    out = setup.algorithm.context.modules['policy'].apply(
      policy, rows, ('logp',)
    )
    return transformer.logits(policy, hidden), out.logp

  logits, learner_logp = (np.asarray(x, float) for x in read(policy, rows))
  sizes = set()
  for n, t in zip(*np.nonzero(rows.sampled), strict=True):
    z, token = logits[n, t - 1] / 0.7, rows.tokens[n, t]
    whole = z[token] - np.logaddexp.reduce(z)
    cut_logp = cut(z, r.top_k, r.top_p)
    sizes.add(int(np.isfinite(cut_logp).sum()))
    assert learner_logp[n, t] == pytest.approx(whole, abs=1e-4)
    assert rows.logp[n, t] == pytest.approx(whole, abs=1e-4)
    assert np.isfinite(cut_logp[token]), 'what is cut is not drawn'
  assert 1 < max(sizes) <= r.top_k
  assert len(sizes) > 1, 'top_p cuts too'


# Demonstrations.


def test_demonstrations_end_with_the_move_that_solves(setup):
  playing = jit_sampler.JitSampler(setup)
  sft, _ = stages(setup, playing)
  index = np.arange(TRAIN)
  batch, _ = jax.device_get(sft.collect(state_of(0), playing.demos(index), 0))
  assert batch.status.tolist() == [Status.SOLVED] * TRAIN
  assert batch.outcome.tolist() == [1.0] * TRAIN
  assert batch.ids['source'].tolist() == [2] * TRAIN, 'nobody sampled them'
  rows, words = batch.rows, setup.tokenizer
  for b in index:
    moves = setup.train.actions[b]
    moves = moves[moves >= 0].tolist()
    assert batch.turns.valid[b].tolist() == [k < len(moves) for k in range(4)]
    for k, move in enumerate(moves):
      mine = (rows.traj == b) & (rows.turn == k) & rows.sampled
      text = words.decode(rows.tokens[mine].tolist()[:-1])
      assert text == setup.world.env.actions[move]
      assert rows.tokens[mine][-1] == words.eot
      assert (rows.weight[mine] == 1).all(), 'taught'
    # The goal is paid for where the last move stands.
    assert batch.turns.terms['env'][b].argmax() == len(moves) - 1


# Updates.


def lesson(seed: int) -> list[Trajectory]:
  """Eight trajectories of one token each."""
  r = np.random.default_rng(seed)
  return [
    Trajectory(
      i // 2,
      1.0,
      [0.0],
      [0],
      [[Token(int(r.integers(CELLS)), int(r.integers(CHOICES)), 0, -1.0)]],
    )
    for i in range(8)
  ]


def nll(table, story):
  """-> mean of -log π over the tokens, its gradient."""
  tokens = [t for x in story for message in x.messages for t in message]
  grads = np.zeros_like(table)
  for t in tokens:
    grads[t.cell] -= reference.slope(table, t) / len(tokens)
  loss = -np.mean([reference.log_prob(table, t) for t in tokens])
  return loss, grads


@pytest.fixture(scope='module')
def stage_run(setup):
  """[(state, metrics)] after each step of both stages, and after `begin`."""
  stories = {'sft': lesson(0), 'rl': lesson(1)}
  laid = {
    name: jax.tree.map(jnp.asarray, toy.lay(x, CHOICES, 2, np.float32))
    for name, x in stories.items()
  }
  module = toy.speaker(CELLS, CHOICES, jnp.float32)

  def tabled(learner):
    modules = dict.fromkeys(learner.context.modules, module)
    return learner.rebind(context=learner.context._replace(modules=modules))

  s = setup._replace(algorithm=tabled(setup.algorithm), warm=tabled(setup.warm))
  playing = types.SimpleNamespace(
    update_service_params=lambda params: None,
    demos=lambda index: index,
    replay=lambda index, key: laid['sft'],
    collect=lambda policy, attempts, key, step: (laid['rl'], {}),
  )
  sft, rl = stages(s, playing)
  state, out = update.init(s.algorithm, jax.random.key(0)), {}
  first = jax.device_get(state)
  for stage in (sft, rl):
    update_state = loop.jit_update(stage.algorithm)
    for step in range(stage.start, stage.end):
      if step == stage.start:
        state = stage.begin(state)
        out[stage.name] = jax.device_get(state)
      batch, _ = stage.collect(state, stage.task(state, step), step)
      state, metrics, _ = update_state(state, batch)
      out[step] = jax.device_get((state, metrics))
  return first, stories, out


def loop_run(first, stories):
  """Parameters after each step, coefficient and loss before it, by loops."""
  table = np.asarray(first.params['policy']['table'], float)
  fresh = Adam(np.zeros_like(table), np.zeros_like(table))
  rule = dict(b1=0.9, b2=0.99, eps=1e-6, max_grad_norm=1.0, weight_decay=0.0)
  out = []
  for name, steps, lr, final, warmup in (
    ('sft', SFT, 0.05, 1.0, 2),
    ('rl', RL, 0.1, 0.2, 1),
  ):
    opt = fresh  # each stage begins with moments of nothing
    for i in range(steps):
      share = i / steps if name == 'rl' else 0.0
      coef = 0.5 - 0.4 * share if name == 'rl' else 1.0
      loss, grads = nll(table, stories[name])
      now = rule | {'lr': lr * (1 - share * (1 - final)), 'warmup': warmup}
      table, opt, _ = reference.adam(now, table, coef * grads, opt)
      out.append((table, coef * loss))
  return out


def test_both_stages_learn_as_loops_do(stage_run):
  """Rates and coefficients of RL go by its own steps; its moments are new."""
  first, stories, out = stage_run
  for step, (table, loss) in enumerate(loop_run(first, stories)):
    state, metrics = out[step]
    assert int(state.step) == step + 1
    np.testing.assert_allclose(
      state.params['policy']['table'],
      table,
      rtol=1e-4,
      atol=1e-5,
      err_msg=f'step {step}',
    )
    got, weight = metrics['loss/total']
    assert got / weight == pytest.approx(loss, rel=1e-4)


def test_the_reference_is_the_warm_policy_and_stays(stage_run):
  _, _, out = stage_run
  warm = out[SFT - 1][0].params['policy']['table']
  for state in (out['rl'], out[SFT + RL - 1][0]):
    np.testing.assert_array_equal(state.params['reference']['table'], warm)
