"""Games inside jit against plain rules, against OpenSpiel, and as matches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import base as env_base
from agentrl.env.jit.games import base, family, kuhn, leduc, lines
from tests import errors
from tests.env.jit.games import plain

N = 96  # matches of a random walk
RULES = {
  'kuhn_poker': kuhn.Kuhn(),
  'leduc_poker': leduc.Leduc(),
  'tic_tac_toe': lines.TIC_TAC_TOE,
  'connect_four': lines.CONNECT_FOUR,
}


def walks(rules, longest=48):
  """N random matches: what the rules say before every move, and the moves.

  Host arrays [ply, N, ...]: over, returns, seat, legal, obs of both seats,
  action.
  """

  def match(key, number):
    def ply(state, key):
      action = base.draw(base.uniform(rules, state), key)
      over = rules.over(state)
      seen = dict(
        over=over,
        returns=rules.returns(state),
        seat=rules.seat(state),
        legal=rules.legal(state),
        obs=jnp.stack([rules.observe(state, s) for s in range(2)]),
        action=jnp.where(over, -1, action),
      )
      after = rules.play(state, action)
      keep = lambda new, old: jnp.where(over, old, new)  # noqa: E731
      return jax.tree.map(keep, after, state), seen

    begun = rules.deal(number % rules.deals)
    return jax.lax.scan(ply, begun, jax.random.split(key, longest))[1]

  keys = jax.random.split(jax.random.key(0), N)
  out = jax.jit(jax.vmap(match, out_axes=1))(keys, jnp.arange(N))
  return jax.device_get(out)


@pytest.fixture(scope='module')
def walked():
  return {name: walks(rules) for name, rules in RULES.items()}


@pytest.mark.parametrize(
  ('name', 'rules'), [('kuhn_poker', plain.kuhn), ('leduc_poker', plain.leduc)]
)
def test_poker_is_that_of_plain_rules(walked, name, rules):
  x = walked[name]
  for n in range(N):
    moves, deal = (), n % RULES[name].deals
    for ply in range(len(x['over'])):
      at = rules(deal, moves)
      over = not isinstance(at[1], list)
      assert over == x['over'][ply, n]
      if over:
        np.testing.assert_array_equal(x['returns'][ply, n], at)
        break
      assert not x['returns'][ply, n].any()
      assert (
        int(x['seat'][ply, n]),
        np.flatnonzero(x['legal'][ply, n]).tolist(),
      ) == at
      moves = (*moves, int(x['action'][ply, n]))


@pytest.mark.parametrize('name', ['kuhn_poker', 'leduc_poker'])
def test_a_hand_is_seen_by_its_owner_alone(walked, name):
  """Two deals that differ in the other's card look alike, for as long."""
  rules = RULES[name]
  cards = plain.KUHN_DEALS if name == 'kuhn_poker' else plain.LEDUC_DEALS
  size = 1 if name == 'kuhn_poker' else 2
  looks = {}
  both = jax.jit(
    jax.vmap(
      lambda n: jax.vmap(lambda s: rules.observe(rules.deal(n), s))(
        jnp.arange(2)
      )
    )
  )
  obs = jax.device_get(both(jnp.arange(rules.deals)))
  for deal, (a, b) in enumerate((d[0] // size, d[1] // size) for d in cards):
    for seat, own in enumerate((a, b)):
      text = env_base.render_text(rules, obs[deal, seat])
      assert text == 'JQK'[own] + '\n'
      looks.setdefault((seat, own), set()).add(text)
  assert all(len(texts) == 1 for texts in looks.values())


def test_openspiel_plays_the_same_matches(walked):
  spiel = pytest.importorskip('pyspiel')
  for name, rules in RULES.items():
    x, game = walked[name], spiel.load_game(name)
    for n in range(0, N, 4):
      state = game.new_initial_state()
      for card in _dealt(name, n % rules.deals)[:2]:
        state.apply_action(card)
      for ply in range(len(x['over'])):
        if state.is_chance_node():
          state.apply_action(_dealt(name, n % rules.deals)[2])
        assert state.is_terminal() == x['over'][ply, n]
        if state.is_terminal():
          np.testing.assert_array_equal(state.returns(), x['returns'][ply, n])
          break
        assert state.current_player() == x['seat'][ply, n]
        legal = np.flatnonzero(x['legal'][ply, n]).tolist()
        assert state.legal_actions() == legal
        state.apply_action(int(x['action'][ply, n]))


@pytest.mark.parametrize('name', [*RULES])
def test_pgx_plays_the_same_matches(walked, name):
  pgx = pytest.importorskip('pgx')
  x, rules = walked[name], RULES[name]
  env = pgx.make({'leduc_poker': 'leduc_holdem'}.get(name, name))
  # Our actions in pgx's numbers: bet and pass; call, raise and fold.
  theirs = {'kuhn_poker': [1, 0], 'leduc_poker': [2, 0, 1]}.get(name)
  theirs = np.arange(x['legal'].shape[-1]) if theirs is None else theirs

  def match(deal, actions):
    state = env.init(jax.random.key(0)).replace(current_player=jnp.int32(0))
    if name == 'leduc_poker':
      state = state.replace(_first_player=jnp.int32(0))
    if deal.size:
      state = state.replace(_cards=deal)

    def ply(state, action):
      seen = dict(
        over=state.terminated,
        returns=state.rewards,
        seat=state.current_player,
        legal=state.legal_action_mask[jnp.asarray(theirs)],
      )
      after = env.step(state, jnp.asarray(theirs)[action])
      keep = lambda new, old: jnp.where(state.terminated, old, new)  # noqa: E731
      return jax.tree.map(keep, after, state), seen

    return jax.lax.scan(ply, state, actions)[1]

  deals = [_dealt(name, n % rules.deals) for n in range(N)]
  deals = jnp.array(deals, jnp.int32) // (2 if name == 'leduc_poker' else 1)
  play = jax.jit(jax.vmap(match, in_axes=(0, 1), out_axes=1))
  got = jax.device_get(play(deals, np.maximum(x['action'], 0)))
  np.testing.assert_array_equal(got['over'], x['over'])
  on = ~x['over']
  for field in ('seat', 'legal'):
    np.testing.assert_array_equal(got[field][on], x[field][on], err_msg=field)
  ends = np.argmax(x['over'], axis=0), np.arange(N)
  np.testing.assert_array_equal(got['returns'][ends], x['returns'][ends])


def _dealt(name, deal):
  """Cards in the order in which OpenSpiel deals them."""
  if name == 'kuhn_poker':
    return plain.KUHN_DEALS[deal]
  return plain.LEDUC_DEALS[deal] if name == 'leduc_poker' else ()


@pytest.mark.parametrize('name', ['tic_tac_toe', 'connect_four'])
def test_lines_win(walked, name):
  """Against a search for whole lines on the board that is shown."""
  rules, x = RULES[name], walked[name]
  h, w, k = rules.height, rules.width, rules.length
  ends = 0
  for n in range(N):
    for ply in range(len(x['over'])):
      text = env_base.render_text(rules, x['obs'][ply, n, 0])
      you, *board = text.splitlines()
      assert you == 'you x'
      at = lambda i, j, b=board: b[i][j] if 0 <= i < h and 0 <= j < w else ''  # noqa: E731
      won = {
        at(i, j)
        for i in range(h)
        for j in range(w)
        for d in ((0, 1), (1, 0), (1, 1), (1, -1))
        if len({at(i + m * d[0], j + m * d[1]) for m in range(k)}) == 1
      } - {'.', ''}
      full = '.' not in ''.join(board)
      assert x['over'][ply, n] == (bool(won) or full)
      want = {'x': 1, 'o': -1}[won.pop()] if won else 0
      np.testing.assert_array_equal(x['returns'][ply, n], [want, -want])
      if x['over'][ply, n]:
        ends += want != 0
        break
      if rules.drops:
        free = [j for j in range(w) if board[0][j] == '.']
      else:
        free = [i for i, c in enumerate(''.join(board)) if c == '.']
      assert np.flatnonzero(x['legal'][ply, n]).tolist() == free
  assert ends > N / 2


def test_what_is_illegal_is_a_forfeit_or_a_random_move():
  rules = RULES['tic_tac_toe']
  task, key = {'deal': jnp.int32(0)}, jax.random.key(3)
  for illegal in (base.FORFEIT, base.RANDOM):
    match = base.Match(rules, illegal)
    step, info = jax.jit(match.step), jax.jit(match.info)
    state, _ = match.reset(key, task)
    state = step(state, jnp.int32(4), key)[0]
    for action in (4, -1):  # taken, unreadable
      after, _, reward, done = step(state, jnp.int32(action), key)
      assert float(info(state, jnp.int32(action), after)['illegal']) == 1
      assert float(reward) == 0
      assert bool(done) == (illegal == base.FORFEIT)
      if done:
        np.testing.assert_array_equal(match.returns(after), [0.5, -1.5])
        np.testing.assert_array_equal(match.wins(after), [1, 0])
        again, _, _, _ = step(after, jnp.int32(0), key)
        np.testing.assert_array_equal(again.game.board, after.game.board)
        assert float(info(after, jnp.int32(4), again)['illegal']) == 0
      else:
        assert int(after.game.count) == 2
        assert int(after.game.board[1, 1]) == lines.CROSS
    fair = step(state, jnp.int32(0), key)[0]
    assert float(info(state, jnp.int32(0), fair)['illegal']) == 0


@pytest.mark.parametrize('name', ['kuhn_poker', 'tic_tac_toe'])
def test_a_fixed_player_has_the_other_seats(name):
  """The optimal player loses to nobody at tic-tac-toe, and to Kuhn's value."""
  settings = family.KuhnPoker if name == 'kuhn_poker' else family.TicTacToe
  source = settings(opponent='optimal', illegal='random')
  env = source.env()
  tasks = [t.task for t in source.tasks('train', 4 * env.rules.deals, 0)]
  tasks = jax.tree.map(lambda *x: jnp.stack([*x] * 64), *tasks)

  def episode(key, task):
    state, _ = env.reset(key, task)

    def turn(state, key):
      state, _, reward, done = env.step(state, env.demonstrate(state, key), key)
      return state, (reward, done)

    keys = jax.random.split(key, env.turns)
    state, (reward, done) = jax.lax.scan(turn, state, keys)
    return reward.sum(), done[-1], env.score(state), env.seat_of(task)

  keys = jax.random.split(jax.random.key(0), len(tasks['deal']))
  got, done, won, seat = jax.device_get(jax.jit(jax.vmap(episode))(keys, tasks))
  assert done.all()
  assert set(seat) == {0, 1}
  np.testing.assert_array_equal(won, got > 0)
  if name == 'tic_tac_toe':
    assert got.max() == 0
    assert got.min() == -1
  else:  # what uniform play gets of it, exactly: the tree's test
    assert got[seat == 0].mean() < 0 < -got.mean()


def test_families_say_what_they_cannot_make():
  assert len(list(family.KuhnPoker().tasks('train', 7, 0))) == 7
  keys = [
    t.key for s in ('train', 'test') for t in family.KuhnPoker().tasks(s, 9, 0)
  ]
  assert len(set(keys)) == 18
  with errors.raises(ValueError, 'split dev'):
    list(family.KuhnPoker().tasks('dev', 1, 0))
  with errors.raises(ValueError, 'cells 42'):
    lines.optimal(RULES['connect_four'], RULES['connect_four'].deal(0))
  for name in ('KuhnPoker', 'LeducPoker', 'TicTacToe', 'ConnectFour'):
    made = getattr(family, name)
    match, against = made().env(), made(opponent='random').env()
    assert isinstance(match, env_base.SeatedEnv)
    assert not isinstance(match, env_base.OneSeat)
    assert isinstance(against, env_base.OneSeat)
    assert not isinstance(against, env_base.SeatedEnv)
    for source, env in ((made(), match), (made(opponent='random'), against)):
      (task,) = source.tasks('train', 1, 0)
      env_base.check(env, task.task, np.array(task.actions, np.int32))
