"""Attention kernels of training rows: chosen by name, or by device and length.

  xla      all scores at once (nn/attention.py): short rows
  chunked  blocks (nn/chunked_attention.py): long rows, on any device
  cudnn    cuDNN's, on NVIDIA GPUs in half precision
  splash   the Pallas kernel for TPUs
  auto     xla up to SHORT tokens; beyond, the kernel of the device if it can
           read such rows, else chunked

Where several devices share the tokens of a row (c.mesh.sequence) only chunked
reads them.

cudnn has not been run on a GPU by us, nor splash on a TPU: the arguments of
the first are tested with the same call's XLA form, the second in Pallas' own
interpreter.
"""

import functools
import math

import chex
import jax
import jax.numpy as jnp
from absl import logging

from agentrl import mesh
from agentrl.nn import chunked_attention
from agentrl.nn.chunked_attention import KEY, ROW, AttentionConfig

NAMES = ('auto', 'xla', 'cudnn', 'splash', 'chunked')
# Rows of so many tokens are read at once: few enough for caches, and not worth
# a loop.
SHORT = 256
CPU_BLOCK = 64  # tokens; a fifth faster than 32 and 128, at 512 and at 2,048
LANES = 128  # rows that splash reads are padded to a multiple of it
DEVICES = {'cudnn': 'gpu', 'splash': 'tpu'}


def choose(
  name: str, tokens: int, head_dim: int, dtype: str, cap: float
) -> str:
  """Chooses one of NAMES but 'auto'; logs a fallback from the one asked for.

  Args:
    tokens: of a row
    cap: soft cap of the scores
  """
  if mesh.sharded_axis_or_none('time'):
    if name not in ('auto', 'chunked'):
      _announce(
        f'attention={name!r} reads whole rows and c.mesh.sequence splits them;'
        " they are read by 'chunked'"
      )
    return 'chunked'
  general = 'chunked' if tokens > SHORT else 'xla'
  if name in ('xla', 'chunked') or (name == 'auto' and general == 'xla'):
    return name if name != 'auto' else general
  here = jax.default_backend()
  own = {device: kernel for kernel, device in DEVICES.items()}
  wanted = own.get(here, general) if name == 'auto' else name
  if wanted == general:
    return general
  why = _missing(wanted, here, head_dim, dtype, cap)
  if not why:
    return wanted
  _announce(
    f'attention={name!r}: {wanted} needs {why}; rows of {tokens} tokens are'
    f' read by {general!r}'
  )
  return general


def config(window: int, size: int, cap: float = 0.0) -> AttentionConfig:
  """The config of a layer's attention, in blocks that suit the device."""
  on_cpu = jax.default_backend() == 'cpu'
  return AttentionConfig(window, size, cap, CPU_BLOCK if on_cpu else LANES)


def reads_trees(name: str) -> bool:
  """Returns whether rows of trees are read by the kernel of long rows.

  On devices that have a kernel of their own that is so by name alone.
  """
  cpu = jax.default_backend() not in DEVICES.values()
  return name == 'chunked' or (name == 'auto' and cpu)


def _missing(kernel, here, head_dim, dtype, cap) -> str:
  """Unmet requirement of the kernel for such rows; '' if none."""
  if DEVICES[kernel] != here:
    return f'a {DEVICES[kernel]}, and this is a {here}'
  if kernel == 'splash':
    return ''
  if dtype not in ('bfloat16', 'float16'):
    return f"dtype='bfloat16', not {dtype!r}"
  if head_dim % 8 or head_dim > 128:
    return f'head_dim={head_dim} to be a multiple of 8 of at most 128'
  return 'scores without a soft cap' if cap else ''


@functools.cache
def _announce(text: str) -> None:
  logging.warning('%s', text)


def attend(name: str, c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT):
  """softmax(q kᵀ / √size) v over what each token sees: [N, T, H, d].

  name: 'chunked'; or 'cudnn' or 'splash', for rows of segments: in these
    `until` tells segments apart. Other arguments are those of
    chunked_attention.attend
  """
  chex.assert_rank([q_NTHd, k_NTGd, v_NTGd, until_NT], [4, 4, 4, 2])
  args = q_NTHd, k_NTGd, v_NTGd, until_NT
  if name == 'chunked':
    return chunked_attention.attend(c, *args)
  run = functools.partial(KERNELS[name], c)
  axes = chunked_attention.query(), KEY, KEY, ROW
  args = chunked_attention.place(args, axes)
  return mesh.shard_map(run, axes, axes[:1])(*args)[0]


def _cudnn(
  c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT, implementation='cudnn'
):
  """jax.nn.dot_product_attention; other segments are masked."""
  same = (until_NT[:, :, None] == until_NT[:, None, :])[:, None]
  out = jax.nn.dot_product_attention(
    q_NTHd,
    k_NTGd,
    v_NTGd,
    mask=same,
    scale=1 / math.sqrt(c.size or q_NTHd.shape[-1]),
    is_causal=True,
    local_window_size=(c.window - 1, 0) if c.window else None,
    implementation=implementation,
  )
  return (out,)


def _splash(
  c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT, interpret=False
):
  """One kernel for all heads of a row, mapped over rows."""
  # Imported where it is used: it asks for Pallas, which CPU runs do without.
  from jax.experimental.pallas.ops.tpu import splash_attention as splash

  own, heads, d = q_NTHd.shape[1:]
  behind = (0, 0), (0, -own % LANES)
  wide = (*behind, (0, 0), (0, 0))
  q_NTHd, k_NTGd, v_NTGd = (jnp.pad(x, wide) for x in (q_NTHd, k_NTGd, v_NTGd))
  until_NT = jnp.pad(until_NT, behind, constant_values=-1)
  t = until_NT.shape[1]
  one = splash.CausalMask((t, t))
  if c.window:
    one = splash.LocalMask((t, t), (c.window - 1, 0), 0)
  kernel = splash.make_splash_mha_single_device(
    mask=splash.MultiHeadMask([one] * heads),
    attn_logits_soft_cap=c.cap or None,
    interpret=interpret,
  )
  q = (q_NTHd / math.sqrt(c.size or d)).astype(q_NTHd.dtype)

  def row(q, k, v, until):
    q, k, v = (jnp.swapaxes(x, 0, 1) for x in (q, k, v))
    out = kernel(q, k, v, segment_ids=splash.SegmentIds(q=until, kv=until))
    return jnp.swapaxes(out, 0, 1)

  out = jax.vmap(row)(q, k_NTGd, v_NTGd, until_NT)[:, :own]
  return (out.astype(q.dtype),)


KERNELS = {'cudnn': _cudnn, 'splash': _splash}
