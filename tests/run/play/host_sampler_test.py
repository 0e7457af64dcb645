"""Episodes on hosts as batches: services in them, and judges that fail."""

import jax
import numpy as np
import pytest

from agentrl.configs import cleaner
from agentrl.hooks import NothingPlayedError
from agentrl.learner import algorithm, update
from agentrl.rollout import pack
from agentrl.rollout.engine.engine import Completion
from agentrl.rollout.engine.service import EngineService
from agentrl.run import build
from agentrl.run.play import played, sampler
from agentrl.run.play.host_sampler import HostSampler
from agentrl.runtime.preemption import Stopped
from agentrl.task.base import make_attempts
from agentrl.types import Span, Status
from tests.run import small_configs
from tests.run.small_configs import interview as config


def collected(c):
  """A batch, and its metrics."""
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  attempts = make_attempts(np.arange(4) // 2, 2, 2, 1.0)
  policy = algorithm.full_params(s.algorithm.context, state.params)
  with sampler.open_sampler(s) as playing:
    playing.update_service_params(state.params)
    key = jax.random.key(1)
    batch, measured = playing.collect(policy, attempts, key, 0)
    told = {k: float(v[0]) for k, v in measured.items()}
  return s, batch, told


@pytest.mark.nightly
def test_what_a_model_says_is_context(tmp_path, monkeypatch):
  """Said by the policy itself, and yet not trained on."""
  said = []
  ask = EngineService.__call__

  def heard(self, *args, **fields):
    said.append(ask(self, *args, **fields))
    return said[-1]

  monkeypatch.setattr(EngineService, '__call__', heard)
  s, batch, told = collected(config(tmp_path, role='policy'))
  rows = batch.rows
  sampled = np.asarray(rows.sampled)
  assert not np.asarray(rows.weight)[~sampled].any()
  assert not np.asarray(rows.logp)[~sampled].any()
  assert sampled.sum() == float(np.sum(batch.turns.terms['tokens']))
  assert len(said) == told['rollout/service/user/calls'] >= 4
  second = []
  for b in range(4):
    inside = ~sampled[b] & (np.asarray(rows.turn[b]) == 0)
    second.append(s.tokenizer.decode(np.asarray(rows.tokens[b])[inside]))
  for text in second:
    assert text in [x if x.endswith('\n') else f'{x}\n' for x in said]


@pytest.mark.nightly
def test_a_judge_that_fails_is_no_zero(tmp_path):
  """Its trajectories count as faults and carry no weight."""
  c = config(tmp_path, 'tiny,env=interview,judge')
  c.service.user.function = f'{__name__}:broken'
  c.service.judge.function = f'{__name__}:numbered'
  _, batch, told = collected(c)
  assert (np.asarray(batch.status) == Status.ENV_ERROR).all()
  assert not np.asarray(batch.turns.scored).any()
  assert not np.asarray(batch.rows.weight).any()
  assert told['rollout/service/user/failed'] == 4
  assert told['rollout/fault/raise'] == 4


@pytest.mark.slow
def test_what_made_way_for_its_correction_is_charged(tmp_path, monkeypatch):
  """Episodes of three turns, the first of whose calls failed."""
  c = cleaner.get_config('tiny')
  c.data = str(tmp_path)
  c.env.update(dict(train=4, test=2))
  s = build.experiment(c)
  spans = [Span.THOUGHT, Span.CALL, Span.ARGUMENT]

  def spoken(k, faults, calls):
    message = Completion(0, [4 + k, 7, 8], [-1.0] * 3, [0.5] * 3, [0] * 3)
    info = {'calls': calls, 'faults': faults}
    return pack.TurnData([3, 3], message, k, 0.1 * k, False, info, spans)

  turns = [spoken(0, 1, 1), spoken(1, 0, 1), spoken(2, 0, 0)]
  ended = [pack.Episode(turns, Status.SOLVED, 1.0)] * 4
  sessions = lambda *args, **fields: (ended, {})  # noqa: E731
  monkeypatch.setattr(HostSampler, '_sessions', sessions)
  monkeypatch.setattr(HostSampler, '_update_weights', lambda *args: None)
  attempts = make_attempts(np.arange(4) // 2, 2, 3, 1.0)
  with sampler.open_sampler(s) as playing:
    batch, _ = playing.collect(None, attempts, jax.random.key(1), 0)
  counts = {name: int(x) for name, x in batch.sampled.items()}
  assert counts == {'attempts': 4, 'tokens': 36, 'env_steps': 12}
  assert np.asarray(batch.turns.valid).sum(1).tolist() == [2] * 4
  written = np.asarray(batch.rows.tokens[0])[np.asarray(batch.rows.sampled[0])]
  assert written.tolist() == [4, 7, 8, 6, 7, 8]
  assert float(np.asarray(batch.rows.weight).sum()) == 24
  assert not np.asarray(batch.rows.logp).any()


def test_what_ended_beside_a_stop_is_neither_collected_nor_evaluated(tmp_path):
  """A signal may reach what plays before it reaches this process."""
  asked = []

  def stopping():
    if asked:
      raise Stopped('SIGTERM')

  def all_broke(*args, indices, **fields):
    asked.append(1)
    return [pack.Episode((), Status.ENV_ERROR, 0.0)] * len(indices), {}

  s = build.experiment(small_configs.countdown(data=str(tmp_path)))
  attempts = make_attempts(np.arange(4) // 2, 2, 2, 1.0)
  with sampler.open_sampler(s, stopping) as playing:
    playing._update_weights = lambda *args: None
    playing._run = all_broke
    for play in (playing.play, playing.collect):
      asked.clear()
      with pytest.raises(Stopped):
        play(None, attempts, jax.random.key(1), 0)
      assert asked


def broken_episode() -> pack.Episode:
  return pack.Episode((), Status.ENV_ERROR, 0.0)


def test_one_demonstration_that_always_breaks_ends_no_run(tmp_path):
  """It is tried again each time; the others were played once."""
  tried = []

  def first_breaks(script, attempts, key, *, indices, **fields):
    task = np.asarray(attempts.task)[list(indices)]
    tried.append(task.tolist())
    message = Completion(0, [4], [-1.0], [0.5], [0])
    turn = pack.TurnData([3], message, 0, 0.0, False, {})
    whole = pack.Episode([turn], Status.SOLVED, 1.0)
    return [whole if i else broken_episode() for i in task], {}

  s = build.experiment(small_configs.countdown(data=str(tmp_path)))
  with sampler.open_sampler(s) as playing:
    playing._run = first_breaks
    for _ in range(played.MOST + 1):
      batch = playing.replay((np.arange(3), None), jax.random.key(0))
      assert np.asarray(batch.turns.scored).any(1).tolist() == [0, 1, 1]
    assert tried == [[0, 1, 2]] + [[0]] * played.MOST
    # Where nothing else is shown, it does.
    alone = lambda: playing.replay((np.array([0]), None), jax.random.key(0))  # noqa: E731
    for _ in range(played.MOST - 1):
      alone()
    with pytest.raises(NothingPlayedError):
      alone()
    playing._eval_counts['faults'] += 18
    playing._watch.see([broken_episode()])
    with pytest.raises(NothingPlayedError, match='none of 1'):
      playing.taken()
    assert playing.taken() == {}, 'the next evaluation would have them'
