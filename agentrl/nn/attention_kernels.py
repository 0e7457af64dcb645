"""Attention kernels of training rows: chosen by name, or by device and length.

  xla      all scores at once (nn/attention.py): short rows
  chunked  blocks (nn/chunked_attention.py): long rows, on any device
  cudnn    cuDNN's, on NVIDIA GPUs in half precision
  splash   the Pallas kernel for TPUs
  auto     xla up to SHORT tokens; beyond, the kernel of the device if it can
           read such rows, else chunked

Rows of trees (layers.segment_until) are read by all but xla. cudnn is given a
mask [T, T]; splash, as `splash_trees`, one of [ASKS, T] at a time for all
heads, and skips the blocks in which it is empty. Where several devices share
the tokens of a row (c.mesh.sequence) only chunked reads them.

cudnn has been run on an H100 (docs/PERFORMANCE.md), splash on no TPU: it is
tested in Pallas' own interpreter, and TPU's compiler takes it.
"""

import functools
import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
from absl import logging

from agentrl import mesh
from agentrl.nn import attention, chunked_attention
from agentrl.nn.chunked_attention import KEY, ROW, AttentionConfig

NAMES = ('auto', 'xla', 'cudnn', 'splash', 'chunked')
# Rows of so many tokens are read at once: few enough for caches, and not worth
# a loop.
SHORT = 256
CPU_BLOCK = 64  # tokens; a fifth faster than 32 and 128, at 512 and at 2,048
LANES = 128  # rows that splash reads are padded to a multiple of it
EIGHT = 8  # the same of cudnn, which refuses odd numbers of tokens
MASKED = 8192  # tokens of a row of trees with a mask; at 5,120 folding pays
ASKS = 1024  # queries that splash reads at once in rows of trees
SAVED = 'splash'  # its answers and normalisers, for the backward pass
CUDNN = 'dot_product_attention_fwd'  # cudnn's primitives begin so
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
    _announce_split(name)
    return 'chunked'
  general = 'chunked' if tokens > SHORT else 'xla'
  if name in ('xla', 'chunked') or (name == 'auto' and general == 'xla'):
    return name if name != 'auto' else general
  rows = f'rows of {tokens} tokens'
  return _possible(name, general, rows, head_dim, dtype, cap)


def choose_for_trees(name: str, head_dim: int, dtype: str, cap: float) -> str:
  """Chooses as `choose`, for rows of trees: 'splash_trees' for splash.

  In place of 'xla', which reads none, 'chunked'.
  """
  if mesh.sharded_axis_or_none('time'):
    _announce_split(name)
    return 'chunked'
  name = name if reads_trees(name) else 'chunked'
  kernel = _possible(name, 'chunked', 'rows of trees', head_dim, dtype, cap)
  return 'splash_trees' if kernel == 'splash' else kernel


def tokens_of_trees(kernel: str) -> int:
  """Bounds the tokens of a tree row that pay with a kernel; 0: any number.

  cudnn reads all pairs of earlier and later tokens, seen or not.
  """
  return MASKED if kernel == 'cudnn' else 0


def reads_trees(name: str) -> bool:
  """Returns whether rows of trees are read by the kernel of long rows."""
  return name != 'xla'


def config(window: int, size: int, cap: float = 0.0) -> AttentionConfig:
  """Returns a layer's attention config, in blocks that suit the device."""
  on_cpu = jax.default_backend() == 'cpu'
  return AttentionConfig(window, size, cap, CPU_BLOCK if on_cpu else LANES)


def _possible(
  name: str, general: str, rows: str, head_dim: int, dtype: str, cap: float
) -> str:
  """Returns the named kernel, for 'auto' the device's own; else the general."""
  here = jax.default_backend()
  own = {device: kernel for kernel, device in DEVICES.items()}
  wanted = own.get(here, general) if name == 'auto' else name
  if wanted == general:
    return general
  why = _missing(wanted, here, head_dim, dtype, cap)
  if not why:
    return wanted
  _announce(
    f'attention={name!r}: {wanted} needs {why}; {rows} are read by {general!r}'
  )
  return general


def _missing(kernel, here, head_dim, dtype, cap) -> str:
  """Names the kernel's unmet requirement for such rows; '' if none."""
  if DEVICES[kernel] != here:
    return f'a {DEVICES[kernel]}, and this is a {here}'
  if kernel == 'splash':
    return ''
  if dtype not in ('bfloat16', 'float16'):
    return f"dtype='bfloat16', not {dtype!r}"
  if head_dim % 8 or head_dim > 128:
    return f'head_dim={head_dim} to be a multiple of 8 of at most 128'
  return 'scores without a soft cap' if cap else ''


def is_answer(primitive, *_, splash: bool = True, **params) -> bool:
  """Returns whether attention's answers or normalisers are made here.

  A policy of jax.checkpoint, for all kernels.

  Args:
    splash: whether those of splash count
  """
  if primitive.name == 'name':
    names = (attention.ANSWER, SAVED) if splash else (attention.ANSWER,)
    return params['name'] in names
  return primitive.name.startswith(CUDNN)


def _announce_split(name: str) -> None:
  if name not in ('auto', 'chunked'):
    _announce(
      f'attention={name!r} reads whole rows and c.mesh.sequence splits them;'
      " they are read by 'chunked'"
    )


@functools.cache
def _announce(text: str) -> None:
  logging.warning('%s', text)


def attend(name: str, c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT):
  """softmax(q kᵀ / √size) v over what each token sees: [N, T, H, d].

  name: 'chunked', 'cudnn' or 'splash_trees'; or 'splash', for rows of segments:
    there `until` tells segments apart. Other arguments are those of
    chunked_attention.attend
  """
  chex.assert_rank([q_NTHd, k_NTGd, v_NTGd, until_NT], [4, 4, 4, 2])
  args = q_NTHd, k_NTGd, v_NTGd, until_NT
  if name == 'chunked':
    return chunked_attention.attend(c, *args)
  run = functools.partial(KERNELS[name], c)
  axes = chunked_attention.query(), KEY, KEY, ROW
  placed = chunked_attention.place(args, axes)
  return mesh.shard_map(run, axes, axes[:1])(*placed)[0]


def _cudnn(
  c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT, implementation='cudnn'
):
  """Runs jax.nn.dot_product_attention with a mask, of trees too."""
  t = until_NT.shape[1]
  q, k, v, until = _behind(EIGHT, q_NTHd, k_NTGd, v_NTGd, until_NT)
  out = jax.nn.dot_product_attention(
    q,
    k,
    v,
    mask=attention.row_mask(until, c.window)[:, None],
    scale=1 / math.sqrt(c.size or q_NTHd.shape[-1]),
    is_causal=True,
    implementation=implementation,
  )
  return (out[:, :t],)


def _splash(
  c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT, interpret=False
):
  """Attends in rows of segments: one constant mask, and ids of segments."""
  # Imported where it is used: it asks for Pallas, which CPU runs do without.
  from jax.experimental.pallas.ops.tpu import splash_attention as splash

  args = _lanes(c, q_NTHd, k_NTGd, v_NTGd, until_NT)
  t, heads = until_NT.shape[1], q_NTHd.shape[2]
  wide = (args[-1].shape[1],) * 2
  one: Any = splash.CausalMask(wide)
  if c.window:
    one = splash.LocalMask(wide, (c.window - 1, 0), 0)
  kernel = splash.make_splash_mha_single_device(
    mask=splash.MultiHeadMask([one] * heads),
    attn_logits_soft_cap=c.cap or None,
    residual_checkpoint_name=SAVED,
    interpret=interpret,
  )

  def row(q, k, v, until):
    return kernel(q, k, v, segment_ids=splash.SegmentIds(q=until, kv=until))

  out_NHTd = jax.vmap(row)(*args)
  return (jnp.swapaxes(out_NHTd, 1, 2)[:, :t],)


def _splash_trees(
  c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT, interpret=False
):
  """Attends in rows of trees, to ASKS queries at a time."""
  t = until_NT.shape[1]
  pieces = -(-t // ASKS)
  args = _lanes(c, q_NTHd, k_NTGd, v_NTGd, until_NT, pieces * LANES)
  ask_PC = jnp.arange(args[-1].shape[1]).reshape(pieces, -1)
  saved = jax.checkpoint_policies.save_only_these_names(SAVED)

  def row(args):
    q_HTd, k_GTd, v_GTd, until_T = args
    # Gradients of the pieces are summed in float32.
    k_GTd, v_GTd = k_GTd.astype(jnp.float32), v_GTd.astype(jnp.float32)

    def piece(x):
      return _splash_piece(c, interpret, *x, k_GTd, v_GTd, until_T)

    q_PHCd = _pieces(q_HTd, pieces)
    out_PHCd = jax.lax.map(
      jax.checkpoint(piece, policy=saved), (ask_PC, q_PHCd)
    )
    return jnp.swapaxes(out_PHCd, 0, 1).reshape(q_HTd.shape)

  # Not mapped by vmap: which blocks are read differs between rows.
  out_NHTd = jax.lax.map(row, args)
  return (jnp.swapaxes(out_NHTd, 1, 2)[:, :t],)


def _splash_piece(
  c: AttentionConfig, interpret: bool, ask_C, q_HCd, k_GTd, v_GTd, until_T
):
  """Returns answers of the queries ask_C, [H, C, d], and a mask of their keys.

  Of one head, [1, C, T], which the kernel takes for all; of 32 bits on a TPU.
  It is made for each layer, and again in its backward pass.
  """
  from jax.experimental.pallas.ops.tpu import splash_attention as splash

  # What depends on no query JAX makes before all loops, and would hold the
  # masks of all pieces.
  ask_C, q_HCd = jax.lax.optimization_barrier((ask_C, q_HCd))
  kernel = splash.make_splash_mha_single_device(
    mask=attention.query_mask(until_T[None], ask_C, c.window),
    attn_logits_soft_cap=c.cap or None,
    residual_checkpoint_name=SAVED,
    interpret=interpret,
  )
  # A name in profiles hangs on this, which is a tracer by now (JAX 0.10).
  info = kernel.fwd_mask_info._replace(is_dynamic_mask=None)
  kernel.fwd_mask_info = info
  return kernel(q_HCd, k_GTd.astype(q_HCd.dtype), v_GTd.astype(q_HCd.dtype))


def _pieces(x_HTd, pieces: int):
  """Splits [H, T, d] -> [P, H, T / P, d]."""
  h, _, d = x_HTd.shape
  return jnp.swapaxes(x_HTd.reshape(h, pieces, -1, d), 0, 1)


def _lanes(
  c: AttentionConfig, q_NTHd, k_NTGd, v_NTGd, until_NT, multiple=LANES
):
  """Lays out heads before tokens for splash, padded behind, q to scale."""
  q = q_NTHd / math.sqrt(c.size or q_NTHd.shape[-1])
  q = q.astype(q_NTHd.dtype)
  *heads, until = _behind(multiple, q, k_NTGd, v_NTGd, until_NT)
  return *(jnp.swapaxes(x, 1, 2) for x in heads), until


def _behind(multiple: int, q_NTHd, k_NTGd, v_NTGd, until_NT):
  """Pads the arguments at the end to a multiple of `multiple` tokens."""
  fill = (0, 0), (0, -until_NT.shape[1] % multiple)
  heads = (
    jnp.pad(x, (*fill, (0, 0), (0, 0))) for x in (q_NTHd, k_NTGd, v_NTGd)
  )
  return *heads, jnp.pad(until_NT, fill, constant_values=-1)


KERNELS = {'cudnn': _cudnn, 'splash': _splash, 'splash_trees': _splash_trees}
