"""Memory benchmarks of `experiments.bench`: what a bank of texts costs."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import registry
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize
from agentrl.memory import texts
from agentrl.memory.texts import TextBank
from agentrl.recall import base, observed
from agentrl.recall.base import RecallInputs
from agentrl.types import Written

READ, KEPT = 10_000, 100_000  # entries that a read searches; of a large bank
TASKS, SKETCH, VOCAB = 4_000, 256, 32_000
TOKENS, QUERY, NEW = 64, 40, 8  # of an entry, of a query; texts of a write


@contextmanager
def reads(
  size: SamplingBenchSize, data: str, entries: int = READ, kept: int = KEPT
) -> Iterator[dict[str, BenchCase]]:
  """Yields reads of one group by component, and a write to a large bank.

  Every entry differs and every one may be read. The bank is where a rollout
  reads it, on the host; the write is on the device, compiled.
  """
  del size, data
  r = np.random.default_rng(0)
  bank, large = drawn(r, entries), jax.device_put(drawn(r, kept))
  sketch = r.normal(size=(TASKS, SKETCH)).astype(np.float32)
  sketch /= np.linalg.norm(sketch, axis=1, keepdims=True)
  index = observed.Index(
    [base.entry_of(bank, i).tolist() for i in range(entries)]
  )
  query = r.integers(0, VOCAB, QUERY).tolist()
  some = drawn(r, NEW)
  new = Written(
    tokens=jnp.asarray(some.tokens),
    length=jnp.asarray(some.length),
    task=jnp.asarray(some.task),
    entry=jnp.full(NEW, -1),
    seen=jnp.full(NEW, -1),
    reward=jnp.zeros(NEW),
  )
  write = jax.jit(functools.partial(texts.applied, step=kept))

  def read(component: str) -> None:
    choose = registry.bind('recall', component, {'k': 3})
    task = np.zeros(1, np.int64)
    choose(RecallInputs(bank=bank, task=task, sketch=sketch, seed=0, step=1))

  calls: dict[str, Callable[[], Any]] = {
    'nearest': functools.partial(read, 'nearest'),
    'ucb': functools.partial(read, 'ucb'),
    'asked': functools.partial(index.likeness, query),
  }
  cases = {
    f'memory_{name}': BenchCase(f'{entries:,} entries', call, (), {'reads': 1})
    for name, call in calls.items()
  }
  held = f'{kept:,} entries, {nbytes(large) / 1e6:.1f} MB'
  cases['memory_write'] = BenchCase(
    held, lambda: write(large, new), (), {'texts': NEW}
  )
  yield cases


def drawn(r: np.random.Generator, entries: int) -> TextBank:
  """Draws a bank of host arrays, all of whose places are taken."""
  n = entries
  return jax.device_get(texts.empty(n, TOKENS, TASKS)).replace(
    tokens=r.integers(0, VOCAB, (n, TOKENS)).astype(np.int32),
    length=np.full(n, TOKENS, np.int32),
    task=r.integers(0, TASKS, n).astype(np.int32),
    written=np.arange(n, dtype=np.int32),
    read=r.integers(0, 9, n).astype(np.float32),
  )


def nbytes(bank: TextBank) -> int:
  """Counts the bytes of a bank."""
  return sum(x.nbytes for x in jax.tree.leaves(bank))
