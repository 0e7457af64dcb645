"""Tokens computed over tokens that differ, in sampling and in the update.

Conversations as agents have them: a system message with tools, turns of a
message and an observation, several attempts at a task. What trajectories begin
with alike is computed once, whoever they belong to.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, types
from agentrl.model import fold, pieces
from agentrl.nn import config, transformer
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes
from tests.model.rows import make

GROUP, SYSTEM, TURNS, MESSAGE, OBSERVED = 8, 1024, 6, 64, 128
LENGTH = SYSTEM + TURNS * (MESSAGE + OBSERVED)
WORDS = 32
SHAPE = transformer.DecoderConfig(
  vocab=WORDS, width=8, layers=1, heads=1, kv_heads=1, head_dim=8, mlp=8
)
MOST = 1.05  # computed over distinct


@dataclasses.dataclass
class Conversation:
  """Texts of one trajectory, each with what the model reads for it.

  contexts: token ids before each message
  messages: token ids
  """

  contexts: list[list[int]]
  messages: list[list[int]]


class Agent:
  """Engine of 16 slots that plays conversations turn by turn."""

  def __init__(self):
    sizes = Sizes(slots=16, capacity=LENGTH + 1, burst=8, chunk=128, lanes=2)
    self.engine = Engine(SHAPE, sizes, eot=WORDS)  # it is never drawn
    self.engine.update_weights(
      mesh.init(config.specs(SHAPE), jax.random.key(0)), 0
    )
    self.rng = np.random.default_rng(0)

  def tokens(self, n: int) -> list[int]:
    return self.rng.integers(0, WORDS, n).tolist()

  def say(self, contexts: dict[int, list[int]]) -> dict[int, list[int]]:
    """The messages of sequences after their contexts."""
    for sequence, context in contexts.items():
      key = self.rng.integers(2**32, size=2).astype(np.uint32)
      self.engine.submit(sequence, context, SamplingParams(key, MESSAGE))
    out = {}
    while self.engine.busy:
      self.engine.dispatch()
      out |= {x.sequence: x.ids for x in self.engine.collect()}
    return out

  def computed(self) -> int:
    counts = self.engine.counts
    assert not counts['evicted']
    return counts['prefilled'] + counts['decoded']


def distinct(sequences) -> int:
  """Number of the beginnings of these sequences."""
  seen = set()
  for tokens in sequences:
    state = 0
    for token in tokens:
      state = hash((state, token))
      seen.add(state)
  return len(seen)


def play(agent: Agent, how: str) -> list[Conversation]:
  """Attempts at one task, whose second half begins otherwise.

  Args:
    how: 'plain'; 'branching': each of four attempts gets a branch there;
      'compacted': the turns before it are replaced by a summary
  """
  system = agent.tokens(SYSTEM)
  count = GROUP // 2 if how == 'branching' else GROUP
  talks = [Conversation([], []) for _ in range(count)]
  now = [system] * count
  for turn in range(TURNS):
    if turn == TURNS // 2 and how == 'branching':
      talks += [Conversation([*x.contexts], [*x.messages]) for x in talks]
      now += now
    if turn == TURNS // 2 and how == 'compacted':
      now = [system + agent.tokens(MESSAGE) for _ in now]
    said = agent.say(dict(enumerate(now)))
    for i, talk in enumerate(talks):
      talk.contexts.append(now[i])
      talk.messages.append(said[i])
      now[i] = [*now[i], *said[i], *agent.tokens(OBSERVED)]
  return talks


def rows_of(talks: list[Conversation]) -> types.Rows:
  """A row of each piece of a conversation that only grew."""
  tokens, sampled = [], []  # of rows
  for talk in talks:
    row, own = [], []
    for context, message in zip(talk.contexts, talk.messages, strict=True):
      if row and context[: len(row)] != row:  # it was compacted
        tokens.append(row)
        sampled.append(own)
        own = []
      own = [*own, *[False] * (len(context) - len(own))]
      row, own = [*context, *message], [*own, *[True] * len(message)]
    tokens.append(row)
    sampled.append(own)
  n = len(tokens)
  ids, own, live = np.zeros((3, n, LENGTH), np.int32)
  for i, (row, mine) in enumerate(zip(tokens, sampled, strict=True)):
    ids[i, : len(row)], own[i, : len(row)], live[i, : len(row)] = row, mine, 1
  return make(ids, own, live - 1)


@jax.jit
def folded_tokens(rows: types.Rows):
  """Returns how many tokens an update reads."""
  size = pieces.MicroBatch(len(rows.tokens), fold=True)
  dealt = pieces.deal(rows, (), jnp.ones(len(rows.tokens), bool), size)

  def more(i, read):
    piece, _ = dealt.at(i)
    assert isinstance(piece, fold.FoldedRows)
    return read + jnp.sum(piece.fold.until >= 0)

  return jax.lax.fori_loop(0, dealt.rounds, more, 0)


@pytest.mark.parametrize(
  'how',
  [pytest.param('plain', marks=pytest.mark.nightly), 'branching', 'compacted'],
)
def test_what_differs_is_computed_once(how):
  agent = Agent()
  talks = play(agent, how)
  # The last token that is drawn is read by nobody.
  heard = [
    [*context, *message[:-1]]
    for talk in talks
    for context, message in zip(talk.contexts, talk.messages, strict=True)
  ]
  tokens = sum(map(len, heard))
  sampling = agent.computed() / distinct(heard)
  assert 1 - 1e-9 <= sampling <= MOST

  rows = rows_of(talks)
  read = int(folded_tokens(rows))
  live = np.asarray(rows.seg) >= 0
  whole = [x[y].tolist() for x, y in zip(rows.tokens, live, strict=True)]
  update = read / distinct(map(tuple, whole))
  assert 1 <= update <= MOST
  # Without sharing it would be several times as much.
  assert tokens > 3 * agent.computed()
  assert live.sum() > 1.3 * read
