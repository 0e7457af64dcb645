"""Judges of a run: what they see, and what becomes of what they say."""

import json
import threading

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.configs import base, grpo, oni
from agentrl.judge import item as judge_item
from agentrl.judge.panel import Judgement
from agentrl.learner import algorithm, update
from agentrl.log import encode, metrics, sample, trajectories
from agentrl.run import build, config_file, runner
from agentrl.run.check import validate
from agentrl.run.play import judges, sampler
from agentrl.signal import base as base_signal
from agentrl.task.base import make_attempts
from agentrl.types import Status
from tests import counting_cases, errors
from tests.judge.items import item_of
from tests.run.small_configs import countdown

METHODS = [
  *('cm2', 'vpr'),
  *(
    pytest.param(x, marks=pytest.mark.slow)
    for x in ('adca', 'adca_allocation', 'mira', 'ppr', 'vpr_turn')
  ),
]


def letters(item):
  """A score that depends on the message alone."""
  return (sum(item.here.message.encode()) % 7) / 7


def heard(item):
  """The same, if every turn has what was read, and the first one the task."""
  first = str(item.task['target']) in item.turns[0].observation
  return (
    letters(item) if first and all(x.observation for x in item.turns) else -1
  )


def whole(item):
  return item.outcome


def hostile(item):
  """Rubbish, an error, far too much, no number: by the message."""
  kind = sum(item.here.message.encode()) % 4
  if kind == 1:
    raise RuntimeError('gone')
  return ('very good', None, [1.0] * 1_000_000, float('nan'))[kind]


def judged(tmp_path, arg='tiny,env=countdown,judged=function', **hp):
  c = countdown(arg)
  c.data = str(tmp_path / 'data')
  c.rollout.update(dict(batch=8, group_size=4, slots=4))
  c.micro_batch = 4
  if 'function' in c.judge:
    base.hp(c, 'judge', 'function', **{'path': f'{__name__}:letters', **hp})
    c.reward = ('env', 'weighted')
    term = hp.get('term', 'judged')
    base.hp(c, 'reward', 'weighted', terms=(term,), weights=(0.1,))
  return c


def lake(tmp_path, arg):
  c = grpo.get_config(f'tiny,env=frozen_lake{arg}')
  c.data = str(tmp_path / 'data')
  c.env.update(dict(train=8, test=4))
  c.rollout.update(dict(batch=8, group_size=4, slots=4, max_turns=4))
  return c


LATE = 'judged', 'judged_known'


def choosy(item):
  """A score by the message and its place, and none of some messages."""
  if sum(item.here.message.encode()) % 5 == 0:
    raise ValueError('no')
  return letters(item) / (2 + item.turn)


def annotated(tmp_path, env, **judge):
  c = oni.get_config(f'tiny,env={env},judged=function')
  c.data = str(tmp_path / 'data')
  c.env.update(dict(train=8, test=4))
  c.rollout.update(dict(batch=8, group_size=4, slots=4))
  c.micro_batch = 4
  base.hp(c, 'judge', 'function', **judge)
  c.hp.memory.annotations.lag = 1
  return c


@pytest.mark.parametrize(
  'env', ['countdown', pytest.param('frozen_lake', marks=pytest.mark.slow)]
)
def test_no_late_label_is_lost_on_shorter_trajectories(tmp_path, env):
  """Labels of a batch come with one that has a turn in each trajectory."""
  s = build.experiment(annotated(tmp_path, env, path=f'{__name__}:choosy'))
  state = update.init(s.algorithm, jax.random.key(0))
  policy = algorithm.full_params(s.algorithm.context, state.params)
  made, told = [], []
  with sampler.open_sampler(s) as playing:
    for step, turns in enumerate((3, 1)):
      attempts = make_attempts(np.arange(8) // 4, 4, turns, 1.0)
      key = jax.random.key(step)
      batch, numbers = playing.collect(policy, attempts, key, jnp.int32(step))
      made.append(batch)
      told.append({k: float(x) for k, (x, _) in numbers.items()})
  long, short = (np.asarray(x.turns.valid) for x in made)
  assert long[:, 1:].any()
  assert not short[:, 1:].any()
  memory = s.algorithm.memory['annotations']
  held = memory.init(made[0], 8)
  for step, batch in enumerate(made):
    held = memory.write(held, batch, None, step)
  known = np.asarray(held.known)[:8]
  place = 'rollout/judge/function/'
  asked, failed = told[1][f'{place}items'], told[1][f'{place}unscored']
  assert asked == long.sum()
  assert known.sum() == asked - failed > known[:, 0].sum()
  assert failed
  label = np.zeros(long.shape)
  for (b, k), text in messages(s, jax.device_get(made[0])).items():
    assert known[b, k] == (sum(text.encode()) % 5 != 0)
    label[b, k] = known[b, k] * (sum(text.encode()) % 7) / 7 / (2 + k)
  np.testing.assert_allclose(np.asarray(held.label)[:8], label, rtol=1e-6)
  # They are no terms of the turns that they came with.
  assert not [x for x in told[1] if x.removeprefix('rollout/') in LATE]
  picked = sample.sample(
    made[1], {}, None, jax.random.key(0), groups=-1, size=8
  )
  seen = list(
    encode.trajectories(jax.device_get(picked), s.tokenizer, step=1, phase='rl')
  )
  assert len(seen) == 8
  for turn in (turn for one in seen for turn in one['turns']):
    assert 'invalid' in turn['terms']
    assert not {*LATE} & turn['terms'].keys()


GATE, ANSWERED = threading.Event(), []


def slow(item):
  """Answers once the gate is open."""
  GATE.wait(10)
  ANSWERED.append(item.here.message)
  return 1.0


def test_no_rollout_waits_for_a_late_judge_of_others(tmp_path):
  """There is one thread for judges, and the late one is in its own."""
  c = annotated(tmp_path, 'frozen_lake', path=f'{__name__}:slow')
  c.judge = ('function', 'column')
  base.hp(c, 'judge', 'column', term='seen')
  c.judging.threads = 1
  before = set(threading.enumerate())
  held = judges.Judges(build.experiment(c), {}, '')
  items = [
    item_of('go?', f'message {line}', terms=[{'progress': 1.0}])
    for line in range(4)
  ]
  held.begin(np.zeros(4, np.int32), range(4), 0)
  for line, item in enumerate(items):
    held.submit(line, item, Status.SOLVED)
  verdicts = held.verdicts()
  assert not ANSWERED
  assert {b: [x.term for x in of] for b, of in verdicts.items()} == {
    b: ['seen'] for b in range(4)
  }
  GATE.set()
  held.begin(np.zeros(4, np.int32), range(4), 1)
  late = held.verdicts()
  assert [len(of) for of in late.values()] == [1] * 4
  assert len(ANSWERED) == 4
  own = set(threading.enumerate()) - before
  assert own
  held.close()
  for thread in own:
    thread.join(10)
    assert not thread.is_alive()


def collected(c):
  """A batch, and its metrics."""
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  attempts = make_attempts(np.arange(8) // 4, 1, 3, 1.0)
  attempts = attempts.replace(group=np.arange(8, dtype=np.int32) // 4)
  policy = algorithm.full_params(s.algorithm.context, state.params)
  with sampler.open_sampler(s) as playing:
    playing.update_service_params(state.params)
    key = jax.random.key(1)
    batch, numbers = playing.collect(policy, attempts, key, jnp.int32(0))
  return s, jax.device_get(batch), {k: float(v[0]) for k, v in numbers.items()}


def messages(s, batch):
  """(b, k) -> the text that the policy wrote."""
  rows, out = batch.rows, {}
  for b, k in zip(*np.nonzero(batch.turns.valid), strict=True):
    at = rows.sampled & (rows.traj == b) & (rows.turn == k)
    ids = [int(x) for x in rows.tokens[at] if x != s.tokenizer.eot]
    out[int(b), int(k)] = s.tokenizer.decode(ids)
  return out


@pytest.mark.slow
def test_a_judge_on_hosts_sees_what_was_written_and_answered(tmp_path):
  s, batch, numbers = collected(judged(tmp_path, path=f'{__name__}:heard'))
  assert batch.turns.valid[:, 1].any()
  written = messages(s, batch)
  for at, text in written.items():
    score = (sum(text.encode()) % 7) / 7
    assert batch.turns.terms['judged'][at] == np.float32(score)
  assert batch.turns.scored[batch.turns.valid].all()
  assert numbers['rollout/judge/function/items'] == len(written)
  assert numbers['rollout/judge/function/unscored'] == 0


@pytest.mark.slow
def test_a_judge_beside_jit_changes_nothing_but_its_term(tmp_path):
  _, plain, _ = collected(lake(tmp_path, ''))
  _, batch, _ = collected(lake(tmp_path, ',judged=column'))
  truth = plain.turns.terms['progress']
  term = batch.turns.terms.pop('judged')
  np.testing.assert_array_equal(term, plain.turns.valid & (truth > 0))
  chex.assert_trees_all_equal(batch, plain)


def test_a_trajectory_without_a_score_is_left_out_whole(tmp_path):
  path = f'{__name__}:whole'
  c = judged(tmp_path, path=path, unit='trajectory')
  c.judging.refusal = 0.5
  _, batch, numbers = collected(c)
  turns = batch.turns
  some = np.any(turns.scored, axis=1)
  np.testing.assert_array_equal(turns.scored, some[:, None] & turns.valid)
  assert numbers['rollout/judge/function/unscored'] == np.sum(~some)
  last = np.sum(turns.valid, axis=1) - 1
  got = turns.terms['judged'][np.arange(8), last]
  np.testing.assert_array_equal(got, np.where(some, batch.outcome, 0))
  # What else it says stands on no other turn.
  assert np.count_nonzero(turns.terms['judged']) == np.count_nonzero(got)


@pytest.mark.parametrize('method', METHODS)
def test_failed_judgements_are_turns_without_a_score(method):
  """To the last bit, whatever stands where the score would be."""
  c = config_file.load(f'{method}:tiny,judged=column')
  if method == 'cm2':  # its groups are larger than those here
    c.hp.turn.require_members.least = 1
  spec = base.wiring(c)._replace(signal=(), memory=())
  alg = update.Algorithm.from_spec(
    spec, base_signal.Context({}, {}, 1), coef=dict(c.coef)
  )
  case = counting_cases.make('unjudged')
  turns = case.batch.turns
  valid = np.asarray(turns.valid)
  rng = np.random.default_rng(7)
  score = rng.random(valid.shape).astype(np.float32)
  failed = valid & (rng.random(valid.shape) < 0.3)
  assert failed.any()
  assert (valid & ~failed).any()
  verdicts = {
    b: [
      Judgement('column', 'judged', k, float(score[b, k]), why, ())
      for k in np.flatnonzero(valid[b])
      for why in ['late' if failed[b, k] else '']
    ]
    for b in range(len(valid))
  }
  terms, scored = judges.tables(valid, ('judged',), verdicts, {'column'})
  np.testing.assert_array_equal(scored, ~failed)

  def credit(term, scored):
    changed = turns.replace(
      terms=turns.terms | {'judged': jnp.asarray(term)},
      scored=jnp.asarray(scored) & turns.valid,
    )
    batch = case.batch.replace(turns=changed)
    out, _ = update.compute_advantage(alg, batch, case.signals)
    return out.replace(token=chain.token_advantage(out, batch.rows))

  one = credit(terms['judged'], scored)
  other = credit(np.where(failed, counting_cases.FAR, score), ~failed)
  chex.assert_trees_all_equal(one, other)
  assert np.asarray(one.turn).any() or np.asarray(one.token).any()


def test_a_monitor_that_fails_costs_nothing(tmp_path):
  """Nothing reads its term; that of a stream is read."""
  c = judged(tmp_path)
  c.reward = ('env',)
  c.judging.refusal = 1.0
  _, batch, numbers = collected(c)
  np.testing.assert_array_equal(batch.turns.scored, batch.turns.valid)
  assert numbers['rollout/judge/function/unscored'] > 0
  c = config_file.load('adca:tiny,judged=column')
  assert judges.terms_read(base.wiring(c)) == {'judged', 'progress'}


def test_two_judges_of_one_term_are_refused(tmp_path):
  c = judged(tmp_path, term='calls')
  with errors.raises(ValueError, 'calls'):
    build.experiment(c)
  c = judged(tmp_path)
  c.judge = ('function', 'column')
  base.hp(c, 'judge', 'column', name='calls')
  with errors.raises(ValueError, 'judged function'):
    build.experiment(c)


def test_what_a_judge_needs_is_asked_for(tmp_path):
  c = judged(tmp_path)
  c.judge = ('number',)
  with errors.raises(ValueError, 'service:judge'):
    validate.config(base.fill(c))
  c = lake(tmp_path, ',judged=number')
  with errors.raises(ValueError, 'service.judge 0'):
    build.experiment(c)
  c = lake(tmp_path, ',judge')
  with pytest.raises(ValueError):
    build.experiment(c)


def test_several_seeds_with_a_judge_are_refused(tmp_path):
  c = lake(tmp_path, ',judged=column')
  with pytest.raises(ValueError):
    build.experiments([c, c])


def test_keys_of_trajectories_are_of_their_tokens():
  one = judge_item.trajectory_key([[1, 2], [3]], [[4], [5]])
  assert one == judge_item.trajectory_key(
    np.array([[1, 2], [3]], object), [np.array([4]), (5,)]
  )
  assert one != judge_item.trajectory_key([[1], [2, 3]], [[4], [5]])


@pytest.mark.slow
def test_a_run_outlives_a_hostile_judge(tmp_path):
  """Counted in its numbers, told in its summary and seen in its log."""
  c = judged(tmp_path, path=f'{__name__}:hostile')
  c.update(dict(steps=2))
  c.sft.steps, c.eval.episodes, c.log.groups = 1, 4, -1
  text = runner.run(c, str(tmp_path / 'run'))
  rows = metrics.read(str(tmp_path / 'run' / 'metrics.jsonl'))
  rl = [r for r in rows if r['phase'] == 'rl' and 'loss/total' in r]
  assert len(rl) == 2
  for r in rl:
    items = r['rollout/judge/function/items']
    assert r['rollout/judge/function/unscored'] == items > 0
    assert r['rollout/judge/function/failed'] == items
    assert r['rollout/unscored'] == 8
    assert not r['policy/nonfinite_skips']
  assert 'without a score' in text
  log = trajectories.Log(str(tmp_path / 'run'))
  seen = [log[i] for i in range(len(log))]
  faults = {
    x['fault'].split(':')[0]
    for t in seen
    if t['phase'] == 'rl'
    for turn in t['turns']
    for x in turn['judged']
  }
  assert len(faults) >= 2
  longest = max(
    len(json.dumps(turn['judged']))
    for t in seen
    for turn in t['turns']
    if 'judged' in turn
  )
  assert longest < 1000


@pytest.mark.parametrize('judge', ['turn', 'trajectory', 'group'])
def test_a_trajectory_whose_world_broke_is_not_judged(tmp_path, judge):
  """Nor does its group wait for it."""
  c = judged(tmp_path, path=f'{__name__}:whole')
  if judge == 'group':
    c.judge = ('diversity',)
    base.hp(c, 'judge', 'diversity', term='judged')
  else:
    base.hp(c, 'judge', 'function', path=f'{__name__}:whole', unit=judge)
  held = judges.Judges(build.experiment(c), {}, '')
  statuses = [Status.SOLVED, Status.ENV_ERROR, Status.FAILED, Status.TIME_LIMIT]
  held.begin(np.zeros(4, np.int32), range(4))
  for line, status in enumerate(statuses):
    held.submit(line, item_of('go?', f'message {line}'), status)
  verdicts = held.verdicts()
  held.close()
  assert {line for line, given in verdicts.items() if given} == {0, 2, 3}
  assert all(len(given) == 1 for given in verdicts.values())
