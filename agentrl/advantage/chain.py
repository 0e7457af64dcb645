"""An advantage is a sum of streams; a stream is a chain of links.

  A = finish( Σ_s coef_s · link_n(... link_1(0)) ),   behind stop_gradient

A link is `(credit, batch, signals) -> (credit, metrics)` with its
hyper-parameters bound (`registry.bind`).
"""

from collections.abc import Callable, Mapping, Sequence

import chex
import jax
import jax.numpy as jnp

from agentrl import counting, segment
from agentrl.types import Array, Batch, Credit, Metrics, Rows, Signals

Link = Callable[[Credit, Batch, Signals], tuple[Credit, Metrics]]


def zero(batch: Batch) -> Credit:
  """Credit before the first link: nothing earned, what counts keeps its weight.

  A turn that was not scored weighs nothing: no loss averages over it.
  """
  rows = batch.rows
  known = counting.counted(batch, 'turn')
  known = segment.to_tokens(known, rows.traj, rows.turn)
  return Credit(
    turn=jnp.zeros_like(batch.turns.reward),
    token=jnp.zeros_like(rows.logp),
    weight=jnp.where(known, rows.weight, 0),
    target={},
  )


def stream(
  links: Sequence[Link], batch: Batch, signals: Signals
) -> tuple[Credit, Metrics]:
  """The links one after the other, from zero credit."""
  return _run(links, zero(batch), batch, signals)


def advantage(
  streams: Mapping[str, Sequence[Link]],
  coef: Mapping[str, float | Array],
  finish: Sequence[Link],
  batch: Batch,
  signals: Signals,
) -> tuple[Credit, Metrics]:
  """Σ_s coef_s · stream_s, then the links of `finish`; never differentiated.

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
    credit, told = stream(links, batch, signals)
    out = _add(out, credit, coef.get(name, 1.0), batch.rows, name)
    told |= {'abs': _size(credit, batch.rows)}
    metrics |= {f'{name}/{key}': pair for key, pair in told.items()}
  out, told = _run(finish, out, batch, signals)
  told |= {'abs': _size(out, batch.rows)}
  metrics |= {f'finish/{key}': pair for key, pair in told.items()}
  return jax.lax.stop_gradient((out, metrics))


def token_advantage(credit: Credit, rows: Rows) -> Array:
  """A_nt = turn[traj_nt, turn_nt] + token_nt; 0 where nothing was sampled."""
  chex.assert_rank([credit.turn, credit.token], 2)
  turn = segment.to_tokens(credit.turn, rows.traj, rows.turn)
  return jnp.where(rows.sampled, turn + credit.token, 0)


def _run(links, credit: Credit, batch: Batch, signals: Signals):
  metrics = {}
  for link in links:
    credit, told = link(credit, batch, signals)
    metrics |= told
  return credit, metrics


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
  )


def _size(credit: Credit, rows: Rows):
  """Mean |A| over the tokens that are trained on, as (sum, weight)."""
  x = jnp.abs(token_advantage(credit, rows))
  return jnp.sum(x * credit.weight), jnp.sum(credit.weight)
