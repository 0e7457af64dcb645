"""Matches in jit: what each seat reads, writes and gets, by plain rules."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.advantage import group_stats
from agentrl.env.jit import base as env_base
from agentrl.env.jit.games import base, family
from agentrl.model import microbatch, policy
from agentrl.nn import transformer
from agentrl.rollout import actor, seats
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.task.base import make_attempts
from agentrl.text import action_parsing, observation_tokens, tokenizer
from agentrl.types import Messages, Prefix, Status
from tests import errors
from tests.env.jit import tasks as jit_tasks
from tests.env.jit.games import plain

WORDS = tokenizer.Embedded()
SHAPE = transformer.DecoderConfig(
  vocab=WORDS.vocab_size,
  width=32,
  layers=1,
  heads=4,
  kv_heads=2,
  head_dim=8,
  mlp=48,
)
MODULE = policy.module(SHAPE)
MATCHES = 24
FAMILIES = {
  'kuhn': family.KuhnPoker(illegal='random'),
  'leduc': family.LeducPoker(illegal='random'),
  'forfeit': family.KuhnPoker(),
  'against': family.KuhnPoker(opponent='random'),
}
DEALS = {'kuhn': plain.KUHN_DEALS, 'leduc': plain.LEDUC_DEALS}


@functools.cache
def world(name):
  source = FAMILIES[name]
  env = source.env()
  tasks = jit_tasks.stack(list(source.tasks('train', 6, 0)))
  return jit_rollout.TokenizedEnv(
    pieces=observation_tokens.piece_table(WORDS, env.pieces),
    actions=action_parsing.action_table(WORDS, env.actions),
    tasks=jax.tree.map(jnp.asarray, tasks),
    env=env,
  )


@functools.cache
def params():
  return mesh.init(MODULE.specs, jax.random.key(0))


def script(name):
  """Messages that name moves, for some matches one that names none."""
  rng, size = np.random.default_rng(1), (2 * MATCHES, 4)
  said = {'leduc': 'ccr', 'forfeit': 'ppbbx'}.get(name, 'pb')
  ids = np.array([WORDS.encode(x)[0] for x in said])
  tokens = np.full((*size, 2), WORDS.eot, np.int32)
  tokens[..., 0] = ids[rng.integers(len(ids), size=size)]
  return actor.scripted(jnp.asarray(tokens), jnp.full(size, 2, jnp.int32))


@functools.cache
def sizes(name, history='turn', slots=8, turns=0):
  return jit_rollout.RolloutSizes(
    slots=slots,
    turns=turns or world(name).env.turns,
    message=2,
    history=history,
  )


@functools.cache
def played(name, history='turn', slots=8, limit=9, by='script'):
  plan, w = sizes(name, history, slots), world(name)
  task = np.arange(2 * MATCHES) // 2 % 6
  attempts = make_attempts(task, 4, limit, 1.0)

  @jax.jit
  def play(params):
    speaker = script(name)
    if by == 'model':
      speaker = actor.model(SHAPE, params, message=2, eot=WORDS.eot)
    return seats.rollout(w, plan, speaker, attempts, jax.random.key(7))

  return attempts, jax.device_get(play(params()))


@pytest.fixture(scope='module', params=['turn', 'full'])
def kuhn(request):
  return request.param, *played('kuhn', request.param, by='model')


def moves_of(name, r, match):
  """The moves of a match, put together from the turns of its seats.

  A message that names none says what was made in its place only later, in what
  somebody reads; such matches are left out: None.
  """
  rules = {'kuhn': plain.kuhn, 'leduc': plain.leduc}[name]
  deal = int(np.arange(2 * MATCHES)[2 * match] // 2 % 6)
  moves, turn = (), [0, 0]
  while isinstance((at := rules(deal, moves))[1], list):
    seat, legal = at
    b = 2 * match + seat
    assert r.valid[b, turn[seat]]
    action = int(r.action[b, turn[seat]])
    if action not in legal:
      return None
    moves, turn[seat] = (*moves, action), turn[seat] + 1
  assert [r.valid[2 * match + s].sum() for s in (0, 1)] == turn
  return deal, moves, at


def read(name, r, b, k):
  ids = r.context[b, k][: r.context_len[b, k]]
  return WORDS.decode([int(i) for i in ids])


def test_seats_take_turns_and_get_what_the_rules_say():
  _, r = played('kuhn')
  whole = 0
  for match in range(MATCHES):
    if (got := moves_of('kuhn', r, match)) is None:
      continue
    whole += 1
    deal, moves, returns = got
    for seat in (0, 1):
      b = 2 * match + seat
      np.testing.assert_array_equal(
        r.reward[b].sum(), returns[seat] * r.valid[b].any()
      )
      assert r.outcome[b] == (returns[seat] > 0)
      won = returns[seat] > 0
      assert r.status[b] == (Status.SOLVED if won else Status.FAILED)
      own = 'JQK'[plain.KUHN_DEALS[deal][seat]]
      line = ''.join('pb'[a] for a in moves)
      for k in range(int(r.valid[b].sum())):
        assert read('kuhn', r, b, k).endswith(f'{own}{line[: 2 * k + seat]}\n')
  assert whole == MATCHES


def laid(plan, r):
  if plan.history == 'turn':
    return record_lib.per_turn(r)
  return record_lib.full_history(r, jit_rollout.row_tokens(world('kuhn'), plan))


def test_no_seat_reads_what_another_holds(kuhn):
  history, attempts, r = kuhn
  plan = sizes('kuhn', history)
  rows = jax.jit(lambda r: record_lib.rows(r, laid(plan, r), 0))(r)
  cards = [WORDS.encode(c)[0] for c in 'JQK']
  seen = 0
  for tokens, of, sampled in zip(
    *map(np.asarray, (rows.tokens, rows.traj, rows.sampled)), strict=True
  ):
    if of[0] < 0:
      continue
    deal = plain.KUHN_DEALS[int(attempts.task[of[0]])]
    other = cards[deal[1 - of[0] % 2]]
    assert len(set(of[of >= 0])) == 1
    assert other not in tokens[(of >= 0) & ~sampled]
    assert cards[deal[of[0] % 2]] in tokens[of >= 0]
    seen += 1
  assert seen >= MATCHES


@pytest.mark.parametrize(
  'history', ['turn', pytest.param('full', marks=pytest.mark.nightly)]
)
def test_in_leduc_a_seat_reads_its_card_and_the_open_one(history):
  attempts, r = played('leduc', history)
  told = 0
  for b in range(2 * MATCHES):
    *hands, public = (x // 2 for x in plain.LEDUC_DEALS[int(attempts.task[b])])
    own, other = 'JQK'[hands[b % 2]], 'JQK'[hands[1 - b % 2]]
    for k in range(int(r.valid[b].sum())):
      text = read('leduc', r, b, k)
      opened = 'JQK'[public] if '/' in text else ''
      assert [x for x in text if x in 'JQK'] == [own, *opened]
      told += bool(opened) and other not in own + opened
  assert told >= MATCHES // 4


def test_log_probs_are_the_learners(kuhn):
  history, _, r = kuhn
  plan = sizes('kuhn', history)

  @jax.jit
  def learned(params, r):
    rows = record_lib.rows(r, laid(plan, r), version=0)
    n = rows.tokens.shape[0]
    return rows, microbatch.forward(MODULE.apply, params, rows, ('logp',), n)

  rows, out = learned(params(), r)
  assert int(rows.sampled.sum()) == int(r.message_len.sum()) > 50
  np.testing.assert_allclose(out.logp, rows.logp, atol=1e-5, rtol=0)
  assert np.all(np.asarray(rows.logp)[np.asarray(rows.sampled)] < 0)


def test_turns_say_who_acted_and_are_grouped_by_it(kuhn):
  _, attempts, r = kuhn
  batch = record_lib.batch(r, record_lib.per_turn(r), attempts, 0)
  b = np.arange(2 * MATCHES)
  np.testing.assert_array_equal(batch.ids['seat'], b % 2)
  np.testing.assert_array_equal(batch.ids['match'], b // 2)
  np.testing.assert_array_equal(batch.turns.agent, (b % 2)[:, None] + [0, 0])
  cell = np.asarray(group_stats.cells(batch, ('group', 'agent')))
  same = (b[:, None] // 4 == b // 4) & (b[:, None] % 2 == b % 2)
  np.testing.assert_array_equal(cell[:, :1] == cell[:, 0], same)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_match_does_not_depend_on_its_slot():
  _, one = played('kuhn', 'full', 8, by='model')
  _, two = played('kuhn', 'full', 2, by='model')
  for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
    np.testing.assert_allclose(a, b, atol=2e-6)


def test_rounds_that_a_seat_begins_twice():
  """In Leduc a seat may move twice in a row, at the end of a round."""
  _, r = played('leduc')
  whole, later = 0, 0
  for match in range(MATCHES):
    if (got := moves_of('leduc', r, match)) is None:
      continue
    whole += 1
    deal, _moves, returns = got
    np.testing.assert_array_equal(
      r.reward[2 * match : 2 * match + 2].sum(axis=1), returns
    )
    for seat in (0, 1):
      b = 2 * match + seat
      own = 'JQK'[plain.LEDUC_DEALS[deal][seat] // 2]
      for k in range(int(r.valid[b].sum())):
        text = read('leduc', r, b, k)
        assert text[0] == own
        later += '/' in text
        public = 'JQK'[plain.LEDUC_DEALS[deal][2] // 2]
        assert '/' not in text or f'/{public}' in text
  assert whole > 2
  assert later > 0


def test_a_forfeit_ends_the_match_for_both():
  _, r = played('forfeit')
  wrong = (r.columns['illegal'] > 0) & r.valid
  assert 0 < wrong.sum() < MATCHES
  for match in range(MATCHES):
    a, b = 2 * match, 2 * match + 1
    lost = wrong[[a, b]].any(axis=1)
    if not lost.any():
      continue
    got = r.reward[[a, b]].sum(axis=1)
    moved = r.valid[[a, b]].any(axis=1)
    want = np.where(lost, base.FORFEITED, base.WON_BY_FORFEIT) * moved
    np.testing.assert_allclose(got, want)
    np.testing.assert_array_equal(r.outcome[[a, b]], ~lost)


def test_a_seat_without_turns_left_cuts_the_match():
  _, r = played('kuhn', limit=1)
  assert r.valid.sum(axis=1).max() == 1
  cut = r.status == Status.SCHEDULE
  assert 0 < cut.sum() < 2 * MATCHES
  np.testing.assert_array_equal(cut[::2], cut[1::2])
  assert not r.reward[cut].any()
  assert not r.outcome[cut].any()


def test_one_seat_against_a_fixed_player_knows_its_seat():
  attempts, r = played('against')
  seat = np.asarray(world('against').tasks['seat'])[attempts.task]
  np.testing.assert_array_equal(r.seat, seat)
  for b in range(2 * MATCHES):
    assert len(read('against', r, b, 0).rstrip('\n')) == 1 + seat[b]
  batch = record_lib.batch(r, record_lib.per_turn(r), attempts, 0)
  np.testing.assert_array_equal(batch.turns.agent[:, 0], seat)
  assert len(set(np.asarray(batch.ids['match']))) == 2 * MATCHES


def test_a_player_without_a_model_names_its_moves():
  w, plan = world('leduc'), sizes('leduc')
  w = w.replace(mover=w.env.demonstrate)
  said = [[WORDS.encode(a)[0], WORDS.eot] for a in w.env.actions]
  speaker = actor.MoveActor(
    jnp.asarray(said, jnp.int32), jnp.full(3, 2, jnp.int32)
  )
  attempts = make_attempts(np.arange(16) // 2 % 6, 2, 9, 1.0)
  r = jax.device_get(
    jax.jit(lambda key: seats.rollout(w, plan, speaker, attempts, key))(
      jax.random.key(0)
    )
  )
  assert not r.columns['illegal'].any()
  assert np.all(r.action[r.valid] >= 0)
  np.testing.assert_allclose(r.reward[::2].sum(1), -r.reward[1::2].sum(1))
  assert np.all(r.message_len[r.valid] == 2)


def test_what_does_not_fit_is_refused():
  plan, w = sizes('kuhn'), world('kuhn')
  speaker = actor.scripted(jnp.zeros((4, 2, 2), jnp.int32), jnp.ones((4, 2)))
  key, attempts = jax.random.key(0), make_attempts(np.zeros(4, int), 2, 2, 1.0)
  with errors.raises(ValueError, 'Match 2'):
    jit_rollout.rollout(w, plan, speaker, attempts, key)
  odd = jax.tree.map(lambda x: x[:3], attempts)
  with errors.raises(ValueError, '2 3'):
    seats.rollout(w, plan, speaker, odd, key)
  given = Messages(jnp.zeros((4, 2, 2), jnp.int32), jnp.ones((4, 2), jnp.int32))
  begun = attempts.replace(prefix=Prefix(jnp.ones(4, jnp.int32), given))
  with errors.raises(ValueError, 'prefix'):
    seats.rollout(w, plan, speaker, begun, key)
  assert isinstance(w.env, env_base.SeatedEnv)
