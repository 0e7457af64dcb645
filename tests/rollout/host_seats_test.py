"""Host matches: equal to those inside jit, private, and safe from faults."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.advantage import group_stats
from agentrl.env.jit.games import base, family
from agentrl.env.seats import Ruling, encode
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.rollout import actor, host_seats
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.rollout import seats as jit_seats
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.engine.engine import Engine, GenerationFault, Sizes
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.workers.pool import env_workers
from agentrl.rollout.workers.replies import EnvError
from agentrl.task.base import make_attempts
from agentrl.text import (
  action_parsing,
  chat_format,
  observation_tokens,
  tokenizer,
)
from agentrl.types import Messages, Prefix, Status
from tests import errors
from tests.env.jit import tasks as jit_tasks
from tests.env.jit.games import plain
from tests.rollout import hosted, tables

WORDS = tokenizer.Embedded()
SHAPE = transformer.DecoderConfig(
  vocab=WORDS.vocab_size,
  width=16,
  layers=1,
  heads=2,
  kv_heads=2,
  head_dim=8,
  mlp=32,
)
TASKS = [{'deal': i} for i in range(6)]
HEARD = 5  # tokens of an observation


def limits(history='full', turns=2, **fields):
  context = (turns if history == 'full' else 1) * (HEARD + 2)
  return EpisodeLimits(
    turns=turns,
    message=2,
    observation=HEARD,
    opening=0,
    context=context,
    history=history,
    seconds=20.0,
    **fields,
  )


def bundle(tasks=TASKS, plan=None, **fields):
  made = tables.Kuhn(**fields)
  systems = ('', '')
  return HostEnvBundle(
    made, tasks, chat_format.bare(WORDS), plan or limits(), systems=systems
  )


def attempts_of(matches, limit=9):
  task = np.arange(2 * matches) // 2 % 6
  return make_attempts(task, 4, limit, 1.0)


def run(stage, generator, attempts, *, count=3, worker=None, **how):
  with env_workers(stage.family, count, worker=worker) as workers:
    return host_seats.run_episodes(
      stage, generator, workers, attempts, jax.random.key(7), **how
    )


def said(matches, moves='pbx'):
  rng = np.random.default_rng(1)
  return [''.join(rng.choice([*moves], 3)) for _ in range(2 * matches)]


@functools.cache
def params():
  """A policy that passes and bets often."""
  module = policy.module(SHAPE)
  p = mesh.init(module.specs, jax.random.key(0))
  read, move = ([WORDS.encode(a)[0] for a in x] for x in ('JQK\n', 'pb'))
  way = jax.random.normal(jax.random.key(9), (SHAPE.width,))
  embed = p['embed'].at[jnp.array(read)].add(way)
  embed = embed.at[jnp.array([*move, WORDS.eot])].add(3 * way)
  return {**p, 'embed': embed}


def inside(attempts, history):
  """The matches inside jit, by the same policy."""
  source = family.KuhnPoker()
  env = source.env()
  tasks = jit_tasks.stack(list(source.tasks('train', 6, 0)))
  world = jit_rollout.TokenizedEnv(
    pieces=observation_tokens.piece_table(WORDS, env.pieces),
    actions=action_parsing.action_table(WORDS, env.actions),
    tasks=jax.tree.map(jnp.asarray, tasks),
    env=env,
  )
  plan = jit_rollout.RolloutSizes(slots=6, turns=2, message=2, history=history)
  speaker = actor.model(SHAPE, params(), message=2, eot=WORDS.eot)
  play = lambda key: jit_seats.rollout(world, plan, speaker, attempts, key)  # noqa: E731
  return jax.device_get(jax.jit(play)(jax.random.key(7)))


@pytest.mark.parametrize(
  'history', ['full', pytest.param('turn', marks=pytest.mark.nightly)]
)
def test_the_same_as_inside_jit(history):
  """One policy, one key, both rollouts: the same matches, seat by seat."""
  attempts = attempts_of(30)
  want = inside(attempts, history)
  plan = limits(history)
  sizes = Sizes(slots=4, capacity=plan.context, burst=3, chunk=32, lanes=2)
  engine = Engine(SHAPE, sizes, eot=WORDS.eot)
  engine.update_weights(params(), 0)
  stage = bundle(plan=plan)
  ended, counts = run(stage, engine, attempts, count=2)
  got = stage.record(ended)
  assert counts == {'cut': 0}
  names = 'message message_len valid status outcome seat match context_len'
  for name in names.split():
    np.testing.assert_array_equal(
      getattr(got, name), getattr(want, name), err_msg=name
    )
  np.testing.assert_array_equal(got.action < 0, want.action < 0)
  np.testing.assert_allclose(got.reward, want.reward, atol=1e-6)
  np.testing.assert_array_equal(got.columns['illegal'], want.columns['illegal'])
  c = min(got.context.shape[2], want.context.shape[2])
  heard = np.arange(c) < want.context_len[..., None]
  np.testing.assert_array_equal(
    got.context[..., :c][heard], want.context[..., :c][heard]
  )
  live = np.arange(2) < want.message_len[..., None]
  np.testing.assert_allclose(got.logp[live], want.logp[live], atol=1e-5)
  legal = want.valid & (want.columns['illegal'] == 0)
  assert legal.sum() > 4  # matches that are played on
  assert (want.columns['illegal'] > 0).any()


@pytest.mark.slow
def test_seats_get_what_the_rules_say_and_learn_by_seat():
  texts, attempts = said(24), attempts_of(24)
  stage = bundle()
  ended, _ = run(stage, hosted.scripted(WORDS, texts), attempts)
  r = stage.record(ended)
  lengths = []
  for match in range(24):
    deal, moves, turn = match % 6, (), [0, 0]
    want = None
    while want is None:
      seat, legal = plain.kuhn(deal, moves)
      b = 2 * match + seat
      move = 'pb'.find(texts[b][turn[seat]])
      turn[seat] += 1
      if move not in legal:
        want = [base.WON_BY_FORFEIT, base.WON_BY_FORFEIT]
        want[seat] = base.FORFEITED
        assert r.action[b, turn[seat] - 1] == -1
        break
      moves = (*moves, move)
      after = plain.kuhn(deal, moves)
      want = None if isinstance(after[1], list) else after
    for seat in (0, 1):
      b = 2 * match + seat
      assert r.valid[b].sum() == turn[seat]
      assert r.reward[b].sum() == want[seat] * (turn[seat] > 0)
      assert r.outcome[b] == (want[seat] > 0)
      if turn[seat]:
        assert r.reward[b, turn[seat] - 1] == want[seat]
    lengths.append(sum(turn))
  assert {*lengths} == {1, 2, 3}
  layout = record_lib.full_history(r, stage.limits.capacity.row)
  batch = record_lib.batch(r, layout, attempts, 0)
  b = np.arange(48)
  np.testing.assert_array_equal(batch.turns.agent, (b % 2)[:, None] + [0, 0])
  np.testing.assert_array_equal(batch.ids['match'], b // 2)
  cell = np.asarray(group_stats.cells(batch, ('group', 'agent')))
  same = (b[:, None] // 4 == b // 4) & (b[:, None] % 2 == b % 2)
  np.testing.assert_array_equal(cell[:, :1] == cell[:, 0], same)


def test_no_seat_reads_what_another_holds():
  """Neither in its rows nor in what the policy is asked."""
  attempts, asked = attempts_of(24), {}
  generator = hosted.scripted(WORDS, said(24, 'pb'))
  submit = generator.submit

  def listen(sequence, context, how):
    asked.setdefault(sequence, []).extend(context)
    submit(sequence, context, how)

  generator.submit = listen
  stage = bundle()
  ended, _ = run(stage, generator, attempts)
  r = stage.record(ended)
  layout = record_lib.full_history(r, stage.limits.capacity.row)
  rows = jax.device_get(record_lib.rows(r, layout, 0))
  cards, seen = [WORDS.encode(c)[0] for c in 'JQK'], 0
  for b in range(48):
    own, other = plain.KUHN_DEALS[b // 2 % 6][:: 1 - 2 * (b % 2)]
    tokens = [*rows.tokens[rows.traj == b], *asked.get(b, [])]
    assert cards[other] not in tokens
    seen += cards[own] in tokens
  assert seen == 48


FAULTS = {
  'explode': 'exception',
  'rich': 'malformed',
  'cheat': 'malformed',
  'stranger': 'exception',
  'undeclared': 'malformed',
}


def test_a_fault_costs_its_match():
  tasks = [*TASKS, *({'deal': 0, 'at': 1, 'fault': x} for x in FAULTS)]
  task = np.repeat(np.arange(len(tasks)), 2)
  attempts = make_attempts(task, 2, 9, 1.0)
  stage = bundle(tasks)
  texts = ['pb'] * len(task)
  ended, counts = run(stage, hosted.scripted(WORDS, texts), attempts)
  broken = [x.status == Status.ENV_ERROR for x in ended]
  assert broken == [False] * 12 + [True] * 10
  for kind in {*FAULTS.values()}:
    assert counts[f'fault/{kind}'] == [*FAULTS.values()].count(kind)
  assert all(x.fault for x in ended[12:])
  assert [len(x.turns) for x in ended[12:14]] == [1, 1]


@pytest.mark.slow
def test_a_table_that_hangs_and_one_in_a_process():
  stage = bundle([{'deal': 0}, {'deal': 0, 'at': 1, 'fault': 'hang'}])
  plan = dataclasses.replace(stage.limits, seconds=0.5, start=60.0)
  stage = stage._replace(limits=plan, family=tables.Kuhn(worker='process'))
  attempts = make_attempts(np.array([0, 0, 1, 1]), 2, 9, 1.0)
  texts = ['pb', 'bb', 'pb', 'bb']
  ended, counts = run(stage, hosted.scripted(WORDS, texts), attempts, count=2)
  assert [x.status for x in ended[2:]] == [Status.ENV_ERROR] * 2
  assert counts['fault/timeout'] == 1
  assert [x.turns[-1].reward for x in ended[:2]] == [-2.0, 2.0]


class Deaf:
  """A generator that fails one conversation at its second message."""

  def __init__(self, inner, sequence):
    self._inner, self._sequence, self._count = inner, sequence, 0
    self.submit, self.dispatch = inner.submit, inner.dispatch
    self.cancel = inner.cancel

  @property
  def busy(self):
    return self._inner.busy

  def collect(self):
    out = []
    for x in self._inner.collect():
      self._count += x.sequence == self._sequence
      fails = x.sequence == self._sequence and self._count == 2
      out.append(GenerationFault(x.sequence, 'lost') if fails else x)
    return out


def test_a_seat_without_a_message_costs_its_match():
  generator = Deaf(hosted.scripted(WORDS, ['pb', 'bb'] * 3), 2)
  stage = bundle()
  ended, counts = run(stage, generator, attempts_of(3))
  broken = [x.status == Status.ENV_ERROR for x in ended]
  assert broken == [False, False, True, True, False, False]
  assert counts['fault/generator'] == 1


def test_a_seat_without_turns_left_cuts_the_match():
  stage = bundle()
  texts = ['pb', 'bb'] * 3
  attempts = attempts_of(3, limit=1)
  ended, _ = run(stage, hosted.scripted(WORDS, texts), attempts)
  assert {x.status for x in ended} == {Status.SCHEDULE}
  assert {len(x.turns) for x in ended} == {1}
  assert not any(t.reward for x in ended for t in x.turns)
  plan = dataclasses.replace(limits(), context=HEARD + 2 + 2)
  ended, _ = run(
    bundle(plan=plan), hosted.scripted(WORDS, texts), attempts_of(3)
  )
  assert {x.status for x in ended} == {Status.TOKEN_LIMIT}


def test_attempts_that_are_not_made_and_shares_of_matches():
  stage, attempts = bundle(), attempts_of(4)
  limit = attempts.limit.copy()
  limit[2:4] = 0
  attempts = attempts.replace(limit=limit)
  generator = hosted.scripted(WORDS, ['pb', 'bb'] * 4)
  reported = []
  ended, _ = run(
    stage,
    generator,
    attempts,
    indices=range(2, 8),
    ended=lambda b, episode: reported.append(b),
  )
  assert [len(x.turns) for x in ended[:2]] == [0, 0]
  assert all(x.turns for x in ended[2:])
  assert sorted(reported) == [4, 5, 6, 7]
  assert host_seats.share(12, 3) == range(12)


def test_each_seat_has_a_system_text_of_its_own():
  made = tables.Kuhn(system='Kuhn.', own='You are')
  systems = tuple(made.seat_system(x) for x in made.seat_names)
  texts = []
  talk = chat_format.bare(WORDS)
  start = talk.start

  def heard(messages):
    texts.append([m.content for m in messages])
    return start(messages)

  stage = HostEnvBundle(
    made,
    TASKS,
    talk._replace(start=heard),
    dataclasses.replace(limits(), opening=20, context=60),
    systems=systems,
  )
  run(stage, hosted.scripted(WORDS, ['pb', 'bb']), attempts_of(1))
  own = {tuple(x) for x in texts}
  assert own == {
    ('You are first', 'JQK'[0] + '\n'),
    ('You are second', 'Qp\n'),
  }


def test_what_does_not_fit_is_refused():
  stage, generator = bundle(), hosted.scripted(WORDS, ['p'] * 4)
  odd = jax.tree.map(lambda x: x[:3], attempts_of(2))
  with errors.raises(ValueError, '2 3'):
    run(stage, generator, odd)
  size = 4, 2, 2
  given = Messages(np.zeros(size, np.int32), np.ones(size[:2], np.int32))
  begun = attempts_of(2).replace(prefix=Prefix(np.ones(4, np.int32), given))
  with errors.raises(ValueError, 'prefix'):
    run(stage, generator, begun)


@pytest.mark.parametrize(
  ('field', 'value'),
  [('seat', 2), ('seat', 'first'), ('seat', True), ('text', 3), ('role', 'x'),
   ('reward', [0.0]), ('reward', [0, '1']), ('score', [0, -0.5]),
   ('score', [0, float('nan')]), ('info', [{}, {'y': 1}]), ('info', [{}, 1]),
   ('info', [{}, {'illegal': None}])],
)  # fmt: skip
def test_rulings_are_not_trusted(field, value):
  good = json.loads(encode(Ruling('first', 'x'), tables.SEATS))
  columns = tables.Kuhn.columns
  assert host_seats.read(json.dumps(good), 2, columns).seat == 0
  with errors.raises(EnvError, f'{field}'):
    host_seats.read(json.dumps(good | {field: value}), 2, columns)
  for text in ('', '[]', '{}', '[' * 100_000):
    with errors.raises(EnvError, 'ruling'):
      host_seats.read(text, 2, columns)
