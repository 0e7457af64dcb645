"""Cost of a checkpoint: how long a step waits for it, against a full save.

  python -m agentrl.lab.bench.checkpoint_cost [GB [FOLDER]]

The state is random, which no compression makes smaller. A step waits for
`save` and for the update after it, which donates the state that is being
written; `blocked` is both, less what that update takes on its own.
"""

import os
import sys
import tempfile
import time
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.runtime import checkpoint, storage

LEAVES = 16
SAVES = 3


def measure(gigabytes: float, folder: str) -> list[dict[str, float]]:
  """Seconds of each save: blocked, and until it is sealed."""
  n = max(int(gigabytes * 1e9) // 4 // LEAVES, 1)
  keys = jax.random.split(jax.random.key(0), LEAVES)
  state = {f'x{i}': jax.random.normal(k, (n,)) for i, k in enumerate(keys)}
  update = jax.jit(lambda t: jax.tree.map(jnp.negative, t), donate_argnums=0)
  state = jax.block_until_ready(update(state))
  state, alone = _timed(update, state)
  storage.path(folder).mkdir(parents=True, exist_ok=True)
  saves = checkpoint.Checkpoints(os.path.join(folder, 'checkpoints'), keep=1)
  out = []
  for step in range(SAVES):
    start = time.perf_counter()
    saves.save(step, state, {})
    saving = time.perf_counter() - start
    state, after = _timed(update, state)
    saves.wait()
    sealed, blocked = time.perf_counter() - start, max(after - alone, 0.0)
    out.append({'save': saving, 'blocked': saving + blocked, 'sealed': sealed})
  saves.close()
  return out


def _timed(update, state) -> tuple[Any, float]:
  start = time.perf_counter()
  state = jax.block_until_ready(update(state))
  return state, time.perf_counter() - start


def main() -> None:
  gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
  with tempfile.TemporaryDirectory() as folder:
    times = measure(gigabytes, sys.argv[2] if len(sys.argv) > 2 else folder)
  for i, t in enumerate(times):
    print(
      f'save {i + 1} of {gigabytes:g} GB: blocked {t["blocked"]:.2f} s (save'
      f' {t["save"]:.2f} s), {t["blocked"] / t["sealed"]:.1%} of the'
      f' {t["sealed"]:.2f} s until it was sealed'
    )


if __name__ == '__main__':
  main()
