"""Invented names, for people and places that no model has read of."""

from collections.abc import Iterator

import numpy as np

_SYLLABLES = (
  'ba be bo da de do fa fe ka ki ko la le lo ma mi mo na ne no pa po ra re ri'
  ' ro sa se so ta te to va ve vo'
)


def invented_names(
  rng: np.random.Generator, count: int, syllables: int = 3
) -> Iterator[str]:
  """Invents distinct words of `syllables` syllables, two letters each.

  Raises:
    ValueError: there are fewer words than asked for.
  """
  parts = _SYLLABLES.split()
  base = len(parts)
  if count > base**syllables:
    raise ValueError(
      f'count={count} names are more than the {base**syllables} of'
      f' syllables={syllables}; ask for fewer, or for longer ones'
    )
  codes = rng.permutation(base**syllables)[:count]
  for code in codes.tolist():
    digits = (code // base**i % base for i in reversed(range(syllables)))
    yield ''.join(parts[i] for i in digits).capitalize()
