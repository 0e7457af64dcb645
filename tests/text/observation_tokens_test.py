import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.text import observation_tokens as R
from agentrl.text.tokenizer import Embedded

TOK = Embedded()
CELLS = ('#', '.', '$', '\n')  # one token each
NAMES = ('up', 'box', 'wet', 'é')  # 1, 1, 3, 2 tokens


def expected(table_args, obs):
  pieces, prefix, suffix = table_args
  ids = TOK.encode(prefix, specials=True)
  for o in obs:
    ids += TOK.encode(pieces[o]) if o >= 0 else []
  return ids + TOK.encode(suffix, specials=True)


CASES = [
  (CELLS, '', ''),
  (CELLS, '<user>', '<eot>\n<assistant>'),
  (NAMES, '', ''),
  (NAMES, '<user>to ', '<eot>'),
  (('.', '#', '.'), '', ''),  # the same text may stand for two pieces
]


@pytest.mark.parametrize('case', CASES)
@pytest.mark.parametrize('absent', [0.0, 0.4, 1.0])
def test_render_is_the_concatenation_of_the_pieces(case, absent):
  pieces, prefix, suffix = case
  table = R.piece_table(TOK, pieces, prefix=prefix, suffix=suffix)
  rng = np.random.default_rng(0)
  obs = rng.integers(0, len(pieces), (20, 9))
  none = rng.integers(-7, 0, obs.shape)
  obs = np.where(rng.random(obs.shape) < absent, none, obs).astype(np.int32)
  tokens, length = jax.jit(jax.vmap(R.render, (None, 0)))(table, obs)
  capacity = (
    len(TOK.encode(prefix, specials=True))
    + 9 * max(len(TOK.encode(p)) for p in pieces)
    + len(TOK.encode(suffix, specials=True))
  )
  assert tokens.shape == (20, capacity)
  assert tokens.dtype == length.dtype == jnp.int32
  for row, n, o in zip(tokens.tolist(), length.tolist(), obs, strict=True):
    want = expected(case, o)
    assert n == len(want)
    assert row == want + [TOK.pad] * (capacity - n)


def test_a_table_says_what_is_wrong_with_its_pieces():
  with pytest.raises(ValueError):
    R.piece_table(TOK, ())
  with pytest.raises(ValueError):
    R.piece_table(TOK, ('#', ''))

  class Deaf(Embedded):
    def encode(self, text, *, specials=False):
      return [7 for _ in text]

  with pytest.raises(ValueError):
    R.piece_table(Deaf(), ('#', '.'))


def test_concat_drops_what_lies_beyond_the_lengths():
  rng = np.random.default_rng(1)
  sizes = (4, 1, 6)
  parts = [rng.integers(1, 99, (30, s)).astype(np.int32) for s in sizes]
  lengths = [rng.integers(0, s + 1, 30).astype(np.int32) for s in sizes]
  tokens, length = jax.jit(jax.vmap(lambda p: R.concat(p, pad=-5)))(
    list(zip(parts, lengths, strict=True))
  )
  for i in range(30):
    want = [
      t
      for p, n in zip(parts, lengths, strict=True)
      for t in p[i, : n[i]].tolist()
    ]
    assert length[i] == len(want)
    assert tokens[i].tolist() == want + [-5] * (11 - len(want))


def hashes(boards):
  n = jnp.full(boards.shape[0], boards.shape[1])
  return np.asarray(jax.jit(jax.vmap(R.content_hash))(jnp.asarray(boards), n))


def collisions(boards):
  boards = np.unique(boards, axis=0)
  return len(boards), len(boards) - len(np.unique(hashes(boards)))


def few(n):
  """What a Poisson count of mean n²/2³² exceeds less than once in 10⁶."""
  mean = n * n / 2**32
  return mean + 5 * np.sqrt(mean) + 4


@pytest.mark.slow
@pytest.mark.parametrize('changes', [2, 3, 64])
def test_near_duplicate_boards_collide_no_more_than_chance(changes):
  rng = np.random.default_rng(2)
  boards = np.tile(rng.integers(9, 16, 64, dtype=np.int32), (100_000, 1))
  for _ in range(changes):
    cell = rng.integers(0, 64, 100_000)
    boards[np.arange(100_000), cell] = rng.integers(9, 16, 100_000)
  n, found = collisions(boards)
  assert n > 40_000
  assert found <= few(n)


def test_swapped_cells_do_not_collide():
  # The case that defeats a sum of token * prime(position).
  rng = np.random.default_rng(3)
  base = rng.integers(9, 16, 64, dtype=np.int32)
  boards = []
  for i in range(64):
    for j in range(i + 1, 64):
      board = base.copy()
      board[[i, j]] = board[[j, i]]
      boards.append(board)
  n, found = collisions(np.array(boards))
  assert n > 1500
  assert found == 0


def test_a_hash_has_all_31_bits_and_no_sign():
  rng = np.random.default_rng(4)
  h = hashes(rng.integers(0, 300, (4096, 8), dtype=np.int32))
  assert h.dtype == np.int32
  assert h.min() >= 0
  share = [((h >> bit) & 1).mean() for bit in range(31)]
  np.testing.assert_allclose(share, 0.5, atol=0.05)


def test_a_hash_sees_the_content_only():
  long = jnp.array([5, 6, 7, 8, 9])
  other = jnp.array([5, 6, 7, 1, 1, 1, 1])
  three = jnp.int32(3)
  h = R.content_hash(long, three)
  assert h == R.content_hash(other, three)
  assert h != R.content_hash(long, jnp.int32(4))
  assert h != R.content_hash(jnp.array([6, 5, 7]), three)
  # A zero token is content too.
  zeros = jnp.zeros(3, jnp.int32)
  assert len({int(R.content_hash(zeros, jnp.int32(n))) for n in range(4)}) == 4


def test_a_hash_is_the_same_on_every_machine():
  # Python integers, so that no array library decides the answer.
  def mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D % 2**32
    x = (x ^ (x >> 15)) * 0x846CA68B % 2**32
    return x ^ (x >> 16)

  tokens = [3, 0, 250, 31]
  total = sum(
    mix((mix(t + 1) + 0x9E3779B1 * (j + 1)) % 2**32)
    for j, t in enumerate(tokens)
  )
  want = mix(total % 2**32) % 2**31
  assert R.content_hash(jnp.array(tokens), jnp.int32(4)) == want
