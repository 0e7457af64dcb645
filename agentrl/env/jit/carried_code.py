"""Carried code: a code is told early and asked for at the end.

  go
  wait
  key bca
  wait
  qxv
  wait
  ...
  key?
  bca

What comes between means nothing. Where it does not fit the context with the
code, what is left of the code is what the policy wrote down: with
rollout.history='compact', its summary. Letters of a code differ, so that it is
lost with their order.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Annotated, ClassVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl import domain
from agentrl.env import base as env_base
from agentrl.env import splits
from agentrl.env.jit import base

CODE, FILLER = 'abcdef', 'mnopqrstuvwxyz'
NOTHING = '-'  # the summary of one who has heard no code
WORDS = ('go', 'key', ' ', '?', '\n', NOTHING)
GO, KEY, SPACE, MARK, END, NONE = range(len(WORDS))
WAIT = 'wait'


class CarriedCodeState(struct.PyTreeNode):
  """State of a trajectory; only `turn` and `right` change."""

  code: jax.Array  # [S] i32  letters
  filler: jax.Array  # [F, L] i32  letters
  turn: jax.Array  # [] i32  turns done
  right: jax.Array  # [] bool  the answer was


@dataclasses.dataclass(frozen=True)
class CarriedCode:
  """Tasks and environment. A task is code i32[S] and filler i32[F, L].

  The answer earns 1 if it is right; what is said before does not matter.
  """

  letters: Annotated[int, domain.Whole(2, len(CODE))] = 4  # that codes have
  size: Annotated[int, domain.Whole(1, most='letters')] = 3  # S, of a code
  fillers: domain.Count = 3  # F, observations between
  length: domain.Count = 6  # L, letters of each
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('asks',)
  worker: ClassVar[str] = env_base.JIT
  legend: ClassVar[str] = (
    'go: the beginning; key and letters: the code; other letters mean nothing;'
    ' key?: say the code'
  )

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    text = f'Say "{WAIT}" to everything but "key?"; then say the key.'
    return text if self.teach else ''

  @property
  def turns(self) -> int:
    """Turns of a trajectory: the beginning, the code, fillers, the question."""
    return self.fillers + 3

  @property
  def codes(self) -> tuple[str, ...]:
    """All codes: letters! / (letters - size)!."""
    orders = itertools.permutations(CODE[: self.letters], self.size)
    return tuple(''.join(x) for x in orders)

  @property
  def actions(self) -> tuple[str, ...]:
    return WAIT, *self.codes

  @property
  def pieces(self) -> tuple[str, ...]:
    return (*WORDS, *CODE, *FILLER)

  @property
  def obs_len(self) -> int:
    return max(3 + self.size, self.length + 1)

  @property
  def summary_len(self) -> int:
    """Pieces of a summary; see `SummarizedEnv`."""
    return self.size

  def env(self) -> 'CarriedCode':
    return self

  def name(self) -> str:
    """Returns carried-code-<letters>x<size>-<hash of all settings>."""
    digest = splits.content_key(repr(self).encode())[:8]
    return f'carried-code-{self.letters}x{self.size}-{digest}'

  def tasks(
    self, split: str, count: int, seed: int
  ) -> Iterator[base.SolvedTask]:
    """Yields distinct tasks, each with its solution; see `TaskSource`.

    Both splits have all codes; they differ in fillers.
    """
    rng, codes = splits.split_rng(split, seed), self.codes

    def draw():
      which = int(rng.integers(len(codes)))
      task = {
        'code': np.array([CODE.index(x) for x in codes[which]], np.int32),
        'filler': rng.integers(
          len(FILLER), size=(self.fillers, self.length), dtype=np.int32
        ),
      }
      content = b''.join(x.tobytes() for x in task.values())
      way = [0] * (self.turns - 1) + [1 + which]
      return splits.content_key(content), (task, way)

    return splits.distinct_tasks(draw, base.solved_task, split, count)

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[CarriedCodeState, jax.Array]:
    del key  # a task leaves nothing open
    state = CarriedCodeState(
      code=jnp.asarray(task['code'], jnp.int32),
      filler=jnp.asarray(task['filler'], jnp.int32),
      turn=jnp.int32(0),
      right=jnp.array(False),
    )
    return state, self._observe(state)

  def step(
    self, state: CarriedCodeState, action: jax.Array, key: jax.Array
  ) -> tuple[CarriedCodeState, jax.Array, jax.Array, jax.Array]:
    del key  # nothing is random
    over, last = state.turn >= self.turns, state.turn == self.turns - 1
    right = last & (action == 1 + self._index(state.code))
    after = state.replace(
      turn=jnp.where(over, state.turn, state.turn + 1),
      right=state.right | right,
    )
    reward = right.astype(jnp.float32)
    return after, self._observe(after), reward, after.turn >= self.turns

  def score(self, state: CarriedCodeState) -> jax.Array:
    return state.right.astype(jnp.float32)

  def info(
    self, before: CarriedCodeState, action: jax.Array, after: CarriedCodeState
  ) -> dict[str, jax.Array]:
    """Returns 1 as `asks` on the turn that answers the question."""
    asks = before.turn == self.turns - 1
    return {'asks': asks.astype(jnp.float32)}

  def summary(self, state: CarriedCodeState) -> jax.Array:
    """Notes the code if it was read: i32[summary_len]; see `SummarizedEnv`."""
    nothing = jnp.full(self.size, -1, jnp.int32).at[0].set(NONE)
    seen = state.turn > 1  # the observation of this turn is not
    return jnp.where(seen, len(WORDS) + state.code, nothing)

  def _index(self, code: jax.Array) -> jax.Array:
    """Returns the place of a code among `codes`, i32[]."""
    table = jnp.array([[CODE.index(x) for x in text] for text in self.codes])
    return jnp.argmax(jnp.all(table == code[None], axis=1)).astype(jnp.int32)

  def _observe(self, state: CarriedCodeState) -> jax.Array:
    """Renders the observation as piece indices i32[obs_len]."""
    code = len(WORDS) + state.code
    filler = len(WORDS) + len(CODE) + state.filler

    def line(*pieces):
      x = jnp.concatenate([jnp.atleast_1d(jnp.asarray(p)) for p in pieces])
      end = self.obs_len - x.shape[0]
      return jnp.pad(x, (0, end), constant_values=-1).astype(jnp.int32)

    lines = [line(GO, END), line(KEY, SPACE, code, END)]
    lines += [line(filler[i], END) for i in range(self.fillers)]
    lines.append(line(KEY, MARK, END))
    return jnp.stack(lines)[jnp.minimum(state.turn, self.turns - 1)]
