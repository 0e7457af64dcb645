"""Decoder config: sizes and switches, and specs of the parameters."""

import dataclasses
import functools

from jax.nn import initializers
from jax.nn.initializers import ones, zeros

from agentrl.domain import OneOf
from agentrl.mesh import Param
from agentrl.nn import attention_kernels, decode_kernel, layers
from agentrl.nn import rope as rotary

# Equal for equal widths, so that the specs of equal models are.
normal = functools.cache(initializers.normal)

# What of a layer is kept for the backward pass; each keeps less than the one
# before it. All; its input, its products with matrices and what attention
# answers; its input and what attention answers; its input alone.
REMAT = ('none', 'dots', 'attention', 'layer')
DTYPES = ('float32', 'bfloat16', 'float16')


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
  """Sizes and switches of a decoder."""

  vocab: int
  width: int
  layers: int
  heads: int
  kv_heads: int
  head_dim: int
  mlp: int
  theta: float = 10_000.0
  eps: float = 1e-6
  positions: int = 0  # learned ones, added to tokens; 0: rotary alone
  qk_norm: bool = False
  bias: bool = False  # on q, k, v
  out_bias: bool = False  # on what attention adds
  mlp_bias: bool = False
  tied: bool = True
  activation: str = 'silu'  # of the gate; layers.ACTIVATIONS
  # How many tokens each layer sees, the newest among them; 0: all. (): all see
  # all.
  windows: tuple[int, ...] = ()
  scaling: rotary.Scaling | None = None  # of rotary positions
  local_theta: float = 0.0  # unscaled, where there is a window; 0: as elsewhere
  query_size: int = 0  # scores are divided by its square root; 0: head_dim
  score_cap: float = 0.0  # soft caps (layers.soft_cap); 0: none
  logit_cap: float = 0.0
  norm_offset: float = 0.0  # norms multiply by offset + scale
  post_norm: bool = False  # also on what attention and MLP add
  embed_scale: float = 1.0  # multiplies embeddings, not the tied head
  experts: int = 0  # MLPs of which each token takes top_k; 0: one MLP for all
  top_k: int = 0
  unit_top_k: bool = True  # the weights of a token's experts sum to 1
  init_std: float = 0.0  # of every matrix; 0: by the size of its input
  attention: str = 'auto'  # what reads whole rows; nn/attention_kernels.py
  decode_attention: str = 'xla'  # what reads a cache; nn/decode_kernel.py
  remat: str = 'none'  # what is computed again backwards; REMAT
  dtype: str = 'float32'  # of the computation; parameters stay float32

  def __post_init__(self):
    if self.heads % self.kv_heads:
      raise ValueError(
        f'model.heads={self.heads} is not a multiple of'
        f' model.kv_heads={self.kv_heads}; make it one'
      )
    if self.head_dim % 2:
      raise ValueError(
        f'model.head_dim={self.head_dim} must be even for rotary positions'
      )
    if self.windows and len(self.windows) != self.layers:
      raise ValueError(
        f'model.windows={self.windows} has {len(self.windows)} entries for'
        f' model.layers={self.layers}; give one for each layer, 0: no window'
      )
    OneOf(*layers.ACTIVATIONS).check('model.activation', self.activation)
    OneOf(*attention_kernels.NAMES).check('model.attention', self.attention)
    OneOf(*decode_kernel.NAMES).check(
      'model.decode_attention', self.decode_attention
    )
    OneOf(*REMAT).check('model.remat', self.remat)
    OneOf(*DTYPES).check('model.dtype', self.dtype)
    if self.experts and not 0 < self.top_k <= self.experts:
      raise ValueError(
        f'model.top_k={self.top_k} must lie between 1 and'
        f' model.experts={self.experts}'
      )

  def window(self, layer: int) -> int:
    return self.windows[layer] if self.windows else 0

  def rope(self, window: int) -> rotary.Rope:
    """Returns the rotary positions of layers with such a window."""
    if window and self.local_theta:
      return rotary.Rope(self.local_theta)
    return rotary.Rope(self.theta, self.scaling)

  @property
  def period(self) -> int:
    """After how many layers the windows repeat."""
    w = self.windows
    fits = (p for p in range(1, len(w)) if w[p:] == w[:-p])
    return next(fits, len(w)) if w else 1


def specs(c: DecoderConfig) -> dict:
  """Specifies the decoder's parameters."""
  D = c.width
  tree = {
    'embed': Param(
      (c.vocab, D), ('vocab', 'embed'), normal(c.init_std or 0.02)
    ),
    'layers': {
      name: Param((c.layers, *p.shape), ('layers', *p.axes), p.init)
      for name, p in layer_specs(c).items()
    },
    'norm': _norm(c, D, 'embed'),
  }
  if c.positions:
    tree['positions'] = Param((c.positions, D), (None, 'embed'), normal(0.02))
  if not c.tied:
    tree['head'] = _matrix(c, (D, c.vocab), ('embed', 'vocab'), D)
  return tree


def layer_specs(c: DecoderConfig) -> dict:
  """Specifies one layer's parameters."""
  return _attention(c) | _feed_forward(c)


def _attention(c: DecoderConfig) -> dict:
  """Specifies the parameters of a layer's attention."""
  D, H, G, d = c.width, c.heads, c.kv_heads, c.head_dim
  tree = {
    'attn_norm': _norm(c, D, 'embed'),
    'q': _matrix(c, (D, H, d), ('embed', 'heads', None), D),
    'k': _matrix(c, (D, G, d), ('embed', 'kv_heads', None), D),
    'v': _matrix(c, (D, G, d), ('embed', 'kv_heads', None), D),
    'o': _matrix(c, (H, d, D), ('heads', None, 'embed'), H * d, 2 * c.layers),
  }
  if c.bias:
    tree |= {
      'q_bias': Param((H, d), ('heads', None), zeros),
      'k_bias': Param((G, d), ('kv_heads', None), zeros),
      'v_bias': Param((G, d), ('kv_heads', None), zeros),
    }
  if c.out_bias:
    tree['o_bias'] = Param((D,), ('embed',), zeros)
  if c.qk_norm:
    tree |= {'q_norm': _norm(c, d), 'k_norm': _norm(c, d)}
  if c.post_norm:
    tree['attn_post_norm'] = _norm(c, D, 'embed')
  return tree


def _feed_forward(c: DecoderConfig) -> dict:
  """Specifies parameters of a layer's MLP, or of its experts."""
  D, F = c.width, c.mlp
  out = 2 * c.layers
  tree = {
    'gate': _matrix(c, (D, F), ('embed', 'mlp'), D),
    'up': _matrix(c, (D, F), ('embed', 'mlp'), D),
    'down': _matrix(c, (F, D), ('mlp', 'embed'), F, out),
  }
  if c.experts:
    tree = {
      name: Param((c.experts, *p.shape), ('expert', *p.axes), p.init)
      for name, p in tree.items()
    }
    tree['router'] = _matrix(c, (D, c.experts), ('embed', None), D)
  if c.mlp_bias:
    tree |= {
      'gate_bias': Param((F,), ('mlp',), zeros),
      'up_bias': Param((F,), ('mlp',), zeros),
      'down_bias': Param((D,), ('embed',), zeros),
    }
  if c.post_norm:
    tree['mlp_post_norm'] = _norm(c, D, 'embed')
  return {'mlp_norm': _norm(c, D, 'embed')} | tree


def _matrix(
  c: DecoderConfig, shape, axes, fan_in: int, shrink: int = 1
) -> Param:
  """Makes a matrix; residual branches shrink so that depth keeps the scale."""
  std = c.init_std or (fan_in * shrink) ** -0.5
  return Param(shape, axes, normal(std))


def _norm(c: DecoderConfig, size: int, axis: str | None = None) -> Param:
  """Returns a norm that begins by multiplying with 1."""
  return Param((size,), (axis,), zeros if c.norm_offset else ones)
