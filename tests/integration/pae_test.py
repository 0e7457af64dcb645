"""PAE: what is proposed, what passes its evaluator, and what is imitated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop
from agentrl.configs import pae
from agentrl.env.worlds import household, proposed_chores
from agentrl.learner import policy_gradient, update
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.run import build, placement, runner
from agentrl.run.check import validate
from agentrl.run.play import host_sampler, sampler
from agentrl.task.base import make_attempts
from agentrl.types import Status
from tests.integration import half_good
from tests.integration.cut import after_row
from tests.integration.judged_methods_test import small, updates
from tests.integration.same import SLOTS, assert_same_run, rows

READ: list[str] = []  # by the proposers of this file


def config(folder, **sizes):
  c = small(pae.get_config('tiny'), folder)
  c.rollout.update(dict(batch=8, group_size=4, slots=8) | sizes)
  c.env.update(dict(train=64, noise=0.0))
  c.hp.memory.replay.update(dict(capacity=6, n=4))
  c.micro_batch = 4
  return c


class Solving:
  """A generator that does what it is asked for in every second of its attempts.

  Its attempts are those whose number `every` divides.
  """

  def __init__(self, tokenizer, every=1):
    self._words, self._left, self._said = tokenizer, {}, []
    self._every = every

  @property
  def busy(self):
    return bool(self._said)

  def submit(self, sequence, context, how):
    del how
    if sequence not in self._left:
      _, goal, facts = self._words.decode(list(context)).strip().split('\n')[:3]
      now = household.facts(x.split() for x in facts.split(', '))
      wanted = dict(x.split() for x in goal.split(', '))
      want = [[a, b, wanted[a]] for a, b in now if a in wanted]
      task = {'facts': [[*x, y] for x, y in now.items()], 'goal': want}
      said = (
        household.solved(task)[1] if sequence // self._every % 2 else ['done']
      )
      ids = [[*self._words.encode(x), self._words.eot] for x in said]
      self._left[sequence] = ScriptedGenerator({sequence: ids}, self._words.eot)
    self._left[sequence].submit(sequence, context, None)
    self._said.append(sequence)

  def dispatch(self):
    pass

  def collect(self):
    said, self._said = self._said, []
    return [x for i in said for x in self._left[i].collect()]

  def cancel(self, sequence):
    self._said = [x for x in self._said if x != sequence]
    self._left.pop(sequence, None)


def solves(monkeypatch, every=1):
  """Has attempts whose number it divides do or leave what they are asked for.

  The policy samples the others.
  """
  whole = host_sampler.HostSampler._sessions

  def sessions(self, generator, *args, **fields):
    if generator is self._engine:
      generator = Solving(self._s.tokenizer, every)
      mine = lambda b: b % every == 0  # noqa: E731
      generator = half_good.Partly(self._engine, generator, mine)
    return whole(self, generator, *args, **fields)

  monkeypatch.setattr(host_sampler.HostSampler, '_sessions', sessions)


def collected(s, seeds=(1,)):
  """A batch of one attempt at each of so many houses, for each seed."""
  state = update.init(s.algorithm, jax.random.key(0))
  b = s.config.rollout.batch
  attempts = make_attempts(np.arange(b), 1, s.config.rollout.max_turns, 1.0)
  out = []
  with sampler.open_sampler(s) as playing:
    for seed in seeds:
      key = jax.random.key(seed)
      out.append(playing.collect(state.params['policy'], attempts, key, 0))
  return [batch for batch, _ in out]


def kept(s, batch):
  """Which trajectories have tokens that the loss is over: [B] bool."""
  credit = update.compute_advantage(s.algorithm, batch, {})[0]
  weight = np.where(batch.rows.sampled, credit.weight, 0)
  traj = np.asarray(batch.rows.traj)
  sums = [weight[traj == b].sum() for b in range(len(batch.outcome))]
  sampled = np.asarray(batch.rows.sampled)
  for b, x in enumerate(sums):
    assert x in (0, sampled[traj == b].sum())
  return np.array(sums) > 0


def test_only_what_the_evaluator_passes_is_imitated(tmp_path, monkeypatch):
  solves(monkeypatch)
  s = build.experiment(config(tmp_path, batch=32, group_size=1))
  [batch] = collected(s)
  passed = np.asarray(batch.outcome) > 0
  assert 0.3 < passed.mean() < 0.7
  np.testing.assert_array_equal(kept(s, batch), passed)
  np.testing.assert_array_equal(np.sum(batch.turns.reward, axis=1), passed)


@pytest.mark.slow
def test_every_score_above_the_threshold_is_imitated(tmp_path):
  """Not the best of the batch alone."""
  s = build.experiment(config(tmp_path))
  [batch] = collected(s)
  turns, value = batch.turns, np.array([0.6, 0.9, 0.5, 0.4, 1.0, 0.0, 0.7, 0.2])
  valid = np.asarray(turns.valid & turns.scored)
  assert valid.any(axis=1).all()
  last = valid.cumsum(axis=1) == valid.sum(axis=1, keepdims=True)
  reward = np.where(valid & last, value[:, None], 0).astype(np.float32)
  batch = batch.replace(turns=turns.replace(reward=reward))
  assert kept(s, batch).tolist() == (value > 0.5).tolist()


@pytest.mark.slow
@pytest.mark.parametrize('rate', [0.3, 1.0])
def test_false_positives_are_imitated_at_their_rate(
  tmp_path, monkeypatch, rate
):
  """And nothing that is right is lost: the evaluator errs to one side."""
  solves(monkeypatch)
  c = config(tmp_path, batch=64, group_size=1)
  c.judging.false_positive = rate
  s = build.experiment(c)
  seeds = range(1 if rate == 1 else 4)
  wrong, count = 0, 0
  for batch in collected(s, seeds):
    judged = np.asarray((batch.turns.valid & batch.turns.scored).any(axis=1))
    assert judged.mean() > 0.9, np.asarray(batch.status)[~judged]
    passed, right = kept(s, batch), np.asarray(batch.outcome) > 0
    assert passed[right & judged].all()
    missed = judged & ~right
    wrong, count = wrong + passed[missed].sum(), count + missed.sum()
  assert abs(wrong / count - rate) <= 3 * np.sqrt(rate * (1 - rate) / count)


def double(x):
  """Casts the floats of a tree of arrays."""
  return jax.tree.map(
    lambda y: (
      y.astype(jnp.float64) if jnp.issubdtype(y.dtype, jnp.floating) else y
    ),
    x,
  )


@pytest.mark.slow
def test_loss_and_gradient_are_those_of_filtered_cloning(tmp_path, monkeypatch):
  """−mean log π over every sampled token of what passed, thoughts too."""
  solves(monkeypatch)
  s = build.experiment(config(tmp_path))
  [batch] = collected(s)
  params = update.init(s.algorithm, jax.random.key(0)).params['policy']
  apply = s.algorithm.context.modules['policy'].apply
  passed = np.asarray(batch.outcome) > 0
  assert 0 < passed.sum() < len(passed)
  traj = np.asarray(batch.rows.traj)
  mask = np.asarray(batch.rows.sampled) & passed[traj]

  def reference(params, rows):
    logp = apply(params, rows, ('logp',)).logp
    return -jnp.sum(jnp.where(mask, logp, 0)) / mask.sum()

  def mine(params, batch):
    credit = update.compute_advantage(s.algorithm, batch, {})[0]
    every, key = jnp.ones(traj.shape, bool), jax.random.key(0)
    return policy_gradient.gradient(
      s.algorithm, params, batch, {}, credit, every, key
    )

  with jax.enable_x64(True), placement.on_mesh(s.config):
    params, batch = double(params), double(batch)
    grad = jax.jit(jax.value_and_grad(reference))
    want, grads = grad(params, batch.rows)
    got, (loss, _) = jax.jit(mine)(params, batch)
  assert want > 1
  np.testing.assert_allclose(loss, want, rtol=1e-5)
  for x, y in zip(*map(jax.tree.leaves, (got, grads)), strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_the_buffer_holds_what_passed_and_gives_some_of_it(
  tmp_path, monkeypatch
):
  """Of 6 at most, the newest; 4 come back beside what was just played."""
  solves(monkeypatch)
  s = build.experiment(config(tmp_path))
  batches = collected(s, seeds=(1, 2, 3))
  good = [np.asarray(x.outcome) > 0 for x in batches]
  assert all(2 <= x.sum() <= 4 for x in good)
  alg = s.algorithm
  with placement.on_mesh(s.config):
    state = update.init(alg, jax.random.key(0))
    memory = {name: m.init(batches[0], 64) for name, m in alg.memory.items()}
    state = state.replace(memory=memory)
    step = loop.jit_update(alg, update.update)
    stored, ever = [], 0
    for batch, right in zip(batches, good, strict=True):
      grown, _ = update.read_memory(alg, state, batch)
      back = np.asarray(grown.turns.valid[8:].any(1))
      assert back.sum() == min(4, ever, 6)
      assert np.all(np.asarray(grown.outcome[8:])[back] == 1)
      assert kept(s, grown)[8:].tolist() == back.tolist()
      # What comes back scores 1, and does not outdo what passes by less.
      less = np.where(np.arange(12) < 8, 0.6, 1.0)[:, None]
      reward = (grown.turns.reward * less).astype(np.float32)
      graded = grown.replace(turns=grown.turns.replace(reward=reward))
      assert kept(s, graded).tolist() == [*right, *back]
      state, _, _ = step(state, batch)
      ever += right.sum()
      stored.append(int(np.sum(state.memory['replay'].born >= 0)))
  assert stored == [min(6, x) for x in np.cumsum([x.sum() for x in good])]
  pool = state.memory['replay']
  assert np.all(np.asarray(pool.trajectories.outcome) == 1)
  when = [step for step, right in enumerate(good) for _ in range(right.sum())]
  assert sorted(np.asarray(pool.born).tolist()) == when[-6:]


def hostile(messages, *, seed):
  """Every third answer is a proposal."""
  READ.append(messages[-1].content)
  texts = 'x' * 10_000_000, '<answer>__import__("os").abort()</answer>'
  if seed % 3:
    return texts[seed % 3 - 1]
  return proposed_chores.propose(messages, seed=seed)


def test_hostile_proposals_cost_their_own_attempts(tmp_path):
  READ.clear()
  c = config(tmp_path)
  c.env.tries = 1
  c.judging.false_positive = 1.0  # an untrained policy solves nothing
  c.service.proposer.function = f'{__name__}:hostile'
  s = build.experiment(c)
  [batch] = collected(s)
  broken = np.asarray(batch.status) == Status.ENV_ERROR
  assert 0 < broken.sum() < 8
  np.testing.assert_array_equal(kept(s, batch), ~broken)
  assert len(READ) == 8


def nobody(messages, *, seed):
  raise AssertionError(messages)


def test_evaluations_propose_nothing(tmp_path):
  c = config(tmp_path)
  c.service.proposer.function = f'{__name__}:nobody'
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  attempts = make_attempts(
    np.arange(64, 68), 1, 4, 1.0
  )  # behind those to train
  with sampler.open_sampler(s) as playing:
    record = playing.play(state.params['policy'], attempts, jax.random.key(0))
  assert np.all(np.asarray(record.status) != Status.ENV_ERROR)


@pytest.mark.parametrize(
  'arg', ['judged=number', 'env=countdown', 'env=sokoban']
)
def test_other_evaluators_and_worlds_fit(arg):
  c = pae.get_config(f'tiny,{arg}')
  if 'number' in arg:
    assert c.hp.judge.number.unit == 'trajectory'
    c.service.judge.function = 'tests.integration.judged_methods_test:answered'
  assert validate.config(c).judge == (
    arg.partition('judged=')[2] or 'function',
  )


@pytest.mark.slow
def test_two_updates_from_a_warm_start(tmp_path):
  c = config(tmp_path)
  c.judging.false_positive = 0.6
  c.loss = (*c.loss, 'entropy')
  rl = updates(c, tmp_path / 'run')
  assert all(r['rollout/possible'] == 1 for r in rl)
  assert rl[0]['rollout/judge/function/score'] > 0.2
  assert rl[0]['loss/nll'] > 1


@pytest.mark.nightly
def test_the_policy_proposes(tmp_path):
  """An untrained one writes nothing in form: every attempt is spared."""
  c = config(tmp_path)
  c.service.proposer.update(dict(function='', role='policy'))
  c.service.proposer.update(dict(context=256, message=8))
  c.env.tries = 1
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  attempts = make_attempts(np.arange(8), 1, 4, 1.0)
  with sampler.open_sampler(s) as playing:
    playing.update_service_params(state.params)
    key = jax.random.key(0)
    batch, told = playing.collect(state.params['policy'], attempts, key, 0)
  assert np.all(np.asarray(batch.status) == Status.ENV_ERROR)
  assert float(told['rollout/service/proposer/calls'][0]) == 8


@pytest.mark.nightly
def test_killed_and_resumed_with_equal_rows(tmp_path):
  c = config(tmp_path)
  c.judging.false_positive = 0.6
  c.steps, c.checkpoint.every, c.stage.warm.steps = 4, 2, 1
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  with after_row(4):
    runner.run(c, cut)
  assert rows(cut)[-1]['step'] == 4
  runner.run(c, cut)
  # Its evaluator has seen the trajectories of the lost step before.
  known = *SLOTS, 'eval/engine/', 'rollout/judge/function/cached'
  # Which sequences the engine has at a time depends on who waits: rounding.
  assert_same_run(whole, cut, steps=5, but=known, atol=1e-5)
