"""Checks of the model: its template, adapter and positions.

All of it is found before anything is built or compiled.
"""

import math
import os

import jax

from agentrl.configs.config import Config, trained
from agentrl.nn.transformer import DecoderConfig
from agentrl.rollout import registered
from agentrl.run.check import fields


def frame(c: Config) -> None:
  """Checks that the chat options go together."""
  r = c.rollout
  if r.chat_format == 'chat' and not c.model.path:
    raise ValueError(
      "rollout.chat_format='chat' is the template of a checkpoint, and the"
      " model is its own; set model.path, or rollout.chat_format to 'auto'"
    )
  if r.system and (r.chat_format == 'bare' or not c.model.path):
    raise ValueError(
      f'rollout.system={r.system!r:.40} is a message in the chat template of a'
      " checkpoint; set model.path and rollout.chat_format to 'auto', or leave"
      ' it empty'
    )


def adapter(c: Config) -> None:
  """Checks that the initial adapter has a base."""
  path = c.lora.path
  if path and not c.model.path:
    raise ValueError(
      f'lora.path={path!r} is an adapter of a checkpoint; set model.path to'
      ' that checkpoint, or leave lora.path empty'
    )
  if path and c.init:
    raise ValueError(
      f'lora.path={path!r} is an adapter of model.path, and init={c.init!r} has'
      ' a policy of its own; leave one of them empty'
    )
  if path and not c.lora.rank:
    raise ValueError(
      f'lora.rank must be >= 1 with lora.path={path!r}, got 0; copy lora.rank,'
      ' lora.alpha and lora.pattern from its adapter_config.json'
    )


def qk_clip(c: Config, shape: DecoderConfig) -> None:
  """Checks that W_q and W_k are trained and attention logits grow."""
  for name, role in trained(c).items():
    for field, value, why in (
      ('qk_norm', shape.qk_norm, 'the norms of this model undo'),
      ('lora.rank', c.lora.rank, 'stay as they are under adapters'),
    ):
      if role.qk_clip and value:
        raise ValueError(
          f'role.{name}.qk_clip={role.qk_clip} scales W_q and W_k, which {why}'
          f' ({field}={value}); set role.{name}.qk_clip to 0'
        )


def positions(shape: DecoderConfig, needed: int, what: str = 'a row') -> None:
  """Checks that learned positions reach to the end of a row."""
  if 0 < shape.positions < needed:
    raise ValueError(
      f'model.positions={shape.positions} and {what} has {needed} tokens;'
      ' raise it, or set it to 0 for rotary positions alone'
    )


def room(c: Config, needed: int) -> None:
  """Checks that a full history can hold its first turn."""
  r = c.rollout
  if r.history in ('full', 'edit') and 0 < r.context < needed:
    raise ValueError(
      f'rollout.context={r.context} tokens hold no first turn, which takes'
      f' up to {needed}; set it to more, or to 0 for whatever'
      f' rollout.max_turns={r.max_turns} need'
    )


def memory(c: Config) -> None:
  """Checks that the arrays whose sizes the config names can be had at all.

  A number for each token that is sampled or read, for each turn of a task, and
  for each weight of a model of one's own. Real runs need many times as much,
  which `experiments.plan` tells: this is for sizes that no machine has.
  """
  values, room = fields.flat(c), _memory()
  turns, tokens = 'rollout.max_turns', 'rollout.max_message_tokens'
  rows = ('rollout.batch', 'rollout.slots', 'sft.batch')
  products: list[tuple[str, ...]] = [(x, turns, tokens) for x in rows]
  products += [(x, turns) for x in ('env.train', 'env.test')]
  products += [(x, 'rollout.context') for x in rows]
  if registered.on_host(c.rollout.kind):
    products.append(('rollout.slots', turns, 'host.max_observation_tokens'))
  if not c.model.path:
    matrix = 'model.layers', 'model.width'
    products += [
      (*matrix, 'model.mlp'),
      (*matrix, 'model.heads', 'model.head_dim'),
      (*matrix, 'lora.rank'),
      ('model.positions', 'model.width'),
    ]
  for names in products:
    size = 4 * math.prod(values[x] for x in names)
    if size > room:
      factors = ' and '.join(f'{x}={values[x]}' for x in names)
      raise ValueError(
        f'{factors} make an array of {size / 2**30:.3g} GiB, more than the'
        f' {room / 2**30:.3g} GiB that there are; lower one of them'
      )


def _memory() -> int:
  """Counts bytes of all devices, or of the hosts where that is more."""
  stats = (x.memory_stats() or {} for x in jax.local_devices())
  devices = sum(x.get('bytes_limit', 0) for x in stats)
  host = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
  return max(devices, host) * jax.process_count()
