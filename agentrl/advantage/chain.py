"""An advantage is a sum of streams; a stream is a chain of links.

  A = post( Σ_s coef_s · link_n(... link_1(0)) ),   behind stop_gradient

A link is `LinkInputs -> (credit, metrics)` with its hyper-parameters bound
(`registry.bind`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.ops import counting
from agentrl.types import (
  Array,
  Batch,
  Credit,
  Linked,
  LinkInputs,
  Metrics,
  Rows,
  Signals,
)

Link = Callable[[LinkInputs], Linked]


def zero(batch: Batch) -> Credit:
  """Returns the credit before the first link: 0, with the weights that count.

  A turn that was not scored weighs nothing: no loss averages over it.
  """
  rows = batch.rows
  counted = counting.counted(batch, 'turn')
  counted = segment.index(batch).to_tokens(counted)
  return Credit(
    turn=jnp.zeros_like(batch.turns.reward),
    token=jnp.zeros_like(rows.logp),
    weight=jnp.where(counted, rows.weight, 0),
    target={},
    size=jnp.zeros_like(batch.turns.reward),
  )


def size(credit: Credit) -> Array:
  """Sums |summands| of the turns' values, for `ops.rounding`: [B, K]."""
  own = jnp.abs(credit.turn)
  return own if credit.size is None else jnp.maximum(own, credit.size)


def times(credit: Credit, factor: Array | float) -> Credit:
  """Returns the credit whose turns, and their sizes, are factor times as large.

  What is 0 up to rounding stays so: the factor is one of each turn [B, K].
  """
  return credit.replace(
    turn=factor * credit.turn, size=jnp.abs(factor) * size(credit)
  )


def stream(links: Sequence[Link], batch: Batch, signals: Signals) -> Linked:
  """Runs the links one after the other, from zero credit."""
  x = LinkInputs(batch=batch, credit=zero(batch), signals=signals)
  return _run(links, x)


def advantage(
  streams: Mapping[str, Sequence[Link]],
  coef: Mapping[str, float | Array],
  post: Sequence[Link],
  batch: Batch,
  signals: Signals,
) -> Linked:
  """Sums coef_s · stream_s, then runs the links of `post`; not differentiated.

  Args:
    streams: name -> links.
    coef: name -> scalar; a stream that is not named counts once.
  Returns: credit, and metrics named `<stream>/<link's metric>`.
    What a link takes from the weight stays taken; targets are merged.
  Raises ValueError for a coefficient without a stream, or for a target that
  two streams write.
  """
  for name in coef:
    if name not in streams:
      raise ValueError(
        f'c.coef names stream {name!r}, which c.advantage lacks; choose from'
        f' {tuple(streams)}'
      )
  out, metrics = zero(batch), {}
  for name, links in streams.items():
    credit, stream_metrics = stream(links, batch, signals)
    out = _add(out, credit, coef.get(name, 1.0), batch.rows, name)
    stream_metrics |= {'abs_mean': _size(credit, batch.rows)}
    metrics |= {f'{name}/{key}': pair for key, pair in stream_metrics.items()}
  x = LinkInputs(batch=batch, credit=out, signals=signals)
  out, post_metrics = _run(post, x)
  post_metrics |= {'abs_mean': _size(out, batch.rows)}
  metrics |= {f'post/{key}': pair for key, pair in post_metrics.items()}
  return jax.lax.stop_gradient((out.replace(size=None), metrics))


def compute_advantage(
  links: Sequence[str | tuple[str, Mapping[str, Any]]],
  batch: Batch,
  signals: Signals | None = None,
) -> Credit:
  """Computes the credit of one stream of registered links.

  Its `token` is the whole advantage of a token, its turn's included, as losses
  read it.

  Args:
    links: names, or (name, hyper-parameters)
    signals: what the links need beside the batch, such as 'value' [N, T]
  Raises: ValueError, one sentence, for a link that is unknown, out of place or
    without what it needs.
  """
  signals = {} if signals is None else signals
  hp = dict((x, {}) if isinstance(x, str) else x for x in links)
  given = {'signal': signals, 'term': batch.turns.terms}
  registry.check_levels('links', tuple(hp), 'turn')
  wiring = registry.MethodSpec(hp={'links': hp})
  for name in hp:
    for need in registry.needs(wiring, 'links', 'link', name):
      kind, _, key = need.partition(':')
      if kind in given and key not in given[kind]:
        raise ValueError(
          f'link {name!r} needs {kind} {key!r}, which was not given; there are'
          f' {tuple(given[kind])}'
        )
  bound = [registry.bind('link', name, values) for name, values in hp.items()]
  credit, _ = stream(bound, batch, signals)
  return credit.replace(token=token_advantage(credit, batch.rows))


def token_advantage(credit: Credit, rows: Rows) -> Array:
  """Returns A_nt = turn[traj_nt, turn_nt] + token_nt; 0 outside of messages."""
  chex.assert_rank([credit.turn, credit.token], 2)
  b, k = credit.turn.shape
  index = segment.TurnIndex(rows.traj, rows.turn, b, k)
  turn = index.to_tokens(credit.turn)
  return jnp.where(segment.in_message(rows), turn + credit.token, 0)


def per_turn(credit: Credit, batch: Batch) -> Array:
  """Averages `token_advantage` over the sampled tokens of each turn: [B, K]."""
  rows, index = batch.rows, segment.index(batch)
  token = token_advantage(credit, rows)
  count = index.to_turns(rows.sampled.astype(token.dtype))
  total = index.to_turns(token)
  return total / jnp.maximum(count, 1)


def _run(links: Sequence[Link], x: LinkInputs) -> Linked:
  metrics: Metrics = {}
  for link in links:
    credit, link_metrics = link(x)
    if credit.turn is not x.credit.turn and credit.size is x.credit.size:
      # A link that sums tells the size; of what others make it is |turn|.
      credit = credit.replace(size=jnp.zeros_like(credit.turn))
    x, metrics = x.replace(credit=credit), metrics | link_metrics
  return x.credit, metrics


def _add(out: Credit, credit: Credit, coef, rows: Rows, name: str) -> Credit:
  twice = sorted(out.target.keys() & credit.target.keys())
  if twice:
    raise ValueError(
      f'stream {name!r} and one before it both write the target {twice[0]!r};'
      ' keep one of the two links'
    )
  # Every stream starts from rows.weight, so only what it took away counts.
  whole = jnp.where(rows.weight > 0, rows.weight, 1)
  return Credit(
    turn=out.turn + coef * credit.turn,
    token=out.token + coef * credit.token,
    weight=out.weight * (credit.weight / whole),
    target=out.target | credit.target,
    size=size(out) + jnp.abs(coef) * size(credit),
  )


def _size(credit: Credit, rows: Rows):
  """Averages |A| over the tokens that are trained on, as (sum, weight).

  0 if no token is trained on.
  """
  x = jnp.abs(token_advantage(credit, rows))
  weight = jnp.sum(credit.weight)
  return jnp.sum(x * credit.weight), jnp.where(weight > 0, weight, 1)
