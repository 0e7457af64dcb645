"""Two heads block by block against whole distributions, in float64."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import chunked_divergence
from agentrl.nn.chunked_divergence import DivergenceConfig
from agentrl.nn.vocab_blocks import HeadConfig
from tests import errors

NIGHTLY = pytest.mark.nightly
N, T, D, E, V = 4, 6, 6, 8, 24
BETAS = (0.0, 0.1, 0.5, 0.9, 1.0)
FORMULAS = (0.0, 0.1, 1.0)  # both ends, and what lies between


def example(seed: int = 0, size: float = 1.0):
  """Hidden states and heads [V, ...] of both, wanted, and a cotangent."""
  r = np.random.default_rng(seed)
  student = size * r.normal(size=(N, T, D)), r.normal(size=(V, D))
  teacher = size * r.normal(size=(N, T, E)), r.normal(size=(V, E))
  wanted = r.random((N, T)) < 0.6
  wanted[0, :2], wanted[1] = True, False  # one row that nobody wants
  return *student, *teacher, wanted, r.normal(size=(N, T))


def log_probs(c: HeadConfig, h, head):
  y = h @ head.T
  z = c.cap * jnp.tanh(y / c.cap) if c.cap else y
  return jax.nn.log_softmax(z / c.temperature)


def divergence(beta: float, log_p, log_q):
  """The definitions, of probabilities [..., V]."""
  kl = lambda a, b: jnp.sum(jnp.exp(a) * (a - b), axis=-1)  # noqa: E731
  if beta in (0, 1):
    return kl(log_p, log_q) if beta else kl(log_q, log_p)
  log_m = jnp.logaddexp(log_p + np.log(1 - beta), log_q + np.log(beta))
  return beta * kl(log_q, log_m) + (1 - beta) * kl(log_p, log_m)


def dense(c: DivergenceConfig, h, head, teacher_h, teacher_head, wanted, bar):
  """Values and cotangents of h and head, of all words at once in float64."""

  def loss(h, head):
    log_q = log_probs(c.teacher, teacher_h, teacher_head)
    out = divergence(c.beta, log_probs(c.student, h, head), log_q)
    out = jnp.where(wanted, out, 0)
    return jnp.sum(out * bar), out

  with jax.enable_x64():
    both = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
    (_, out), grads = both(h, head)
    return jax.tree.map(np.asarray, (out, *grads))


@functools.partial(jax.jit, static_argnums=0)
def run(c: DivergenceConfig, *args):
  *student, teacher_h, teacher_head, wanted, bar = args

  def loss(h, head, teacher_h, teacher_head):
    out = chunked_divergence.token_divergence(
      c, h, head, teacher_h, teacher_head, wanted
    )
    return jnp.sum(out * bar), out

  (_, out), grads = jax.value_and_grad(loss, (0, 1, 2, 3), has_aux=True)(
    *student, teacher_h, teacher_head
  )
  return out, *grads


def turned(c: HeadConfig, head):
  return head if c.axis == 0 else head.T


def chunked(c: DivergenceConfig, h, head, teacher_h, teacher_head, wanted, bar):
  """As `dense`, by blocks in float32; nothing reaches the teacher."""
  args = h, turned(c.student, head), teacher_h, turned(c.teacher, teacher_head)
  args = jax.tree.map(jnp.float32, args)
  out, dh, dhead, *rest = run(c, *args, wanted, jnp.float32(bar))
  assert not any(np.any(x) for x in rest)
  return out, dh, turned(c.student, dhead)


# Student and teacher; the blocks of tokens and words, of which 7 and 5 divide
# neither V nor what is wanted.
CASES = [
  (HeadConfig(0), HeadConfig(0), 5, 7),
  (HeadConfig(1, 4.0, 0.7), HeadConfig(0, 0.0, 0.7), 100, 5),  # one round
  (HeadConfig(0, 0.0, 1.3), HeadConfig(1, 6.0, 1.3), 1, V),  # all words
  (HeadConfig(1, 2.0), HeadConfig(1), 4, 1),
  (HeadConfig(), HeadConfig(1), 2048, 4096),
]


# Each case and each beta once by day, all pairs at night.
PAIRS = [
  pytest.param(case, beta, marks=[] if i == j else NIGHTLY)
  for i, case in enumerate(CASES)
  for j, beta in enumerate(BETAS)
]


@pytest.mark.parametrize(('case', 'beta'), PAIRS, ids=str)
def test_values_and_gradients_are_those_of_all_words(case, beta):
  c = DivergenceConfig(beta, *case)
  args = example()
  chex.assert_trees_all_close(
    chunked(c, *args), dense(c, *args), rtol=2e-4, atol=2e-5
  )


@pytest.mark.parametrize('beta', FORMULAS)
def test_the_gradient_is_a_central_difference(beta):
  """By hand, of the definitions in float64, along random directions."""
  c = DivergenceConfig(beta, *CASES[1])
  h, head, *rest = example(1)
  _, dh, dw = chunked(c, h, head, *rest)
  bar, r, eps = rest[-1], np.random.default_rng(2), 1e-5
  for _ in range(3):
    a, b = r.normal(size=h.shape), r.normal(size=head.shape)
    far = [dense(c, h + s * a, head + s * b, *rest)[0] for s in (eps, -eps)]
    slope = np.sum(a * np.asarray(dh)) + np.sum(b * np.asarray(dw))
    want = np.sum(bar * (far[0] - far[1])) / (2 * eps)
    np.testing.assert_allclose(slope, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('beta', FORMULAS)
def test_equal_distributions_have_none(beta):
  c = DivergenceConfig(beta, HeadConfig(0), HeadConfig(0), 5, 7)
  h, head, _, _, wanted, bar = example(2, 3.0)
  out = chunked(c, h, head, h, head, wanted, bar)
  # 0 to the bit at the ends; a mixture is rounded once more.
  atol = 0 if beta in (0, 1) else 2e-6
  for x in out:
    np.testing.assert_allclose(x, 0, atol=atol)


@pytest.mark.parametrize('beta', FORMULAS)
def test_words_of_no_chance_stay_finite(beta):
  """A one-hot teacher, logits of ±1000, and nobody who wants anything."""
  c = DivergenceConfig(beta, HeadConfig(0), HeadConfig(0), 5, 7)
  args = example(3, 300.0)
  out = chunked(c, *args)
  chex.assert_tree_all_finite(out)
  h, head, _, _, wanted, bar = args
  hot = np.zeros((N, T, E))
  hot[..., 0] = 1.0
  only = np.zeros((V, E))
  only[3, 0] = 2000.0
  got = chunked(c, h / 300, head, hot, only, wanted, bar)
  want = dense(c, h / 300, head, hot, only, wanted, bar)
  chex.assert_trees_all_close(got, want, rtol=1e-4, atol=1e-3)
  none = chunked(c, *args[:4], np.zeros_like(wanted), bar)
  assert not any(np.any(x) for x in none)


@pytest.mark.parametrize(
  'beta',
  [0.3, *(pytest.param(x, marks=NIGHTLY) for x in (0.0, 1.0))],
)
@pytest.mark.parametrize(
  ('sizes', 'explicit'),
  [
    ({'fsdp': 2, 'tensor': 4}, False),
    ({'sequence': 2, 'tensor': 4}, True),
    pytest.param({'fsdp': 2, 'tensor': 4}, True, marks=NIGHTLY),
    pytest.param({'data': 2, 'fsdp': 2, 'tensor': 2}, True, marks=NIGHTLY),
  ],
  ids=str,
)
def test_words_split_over_devices_are_the_same(sizes, explicit, beta):
  """Rows, tokens, copies and words over devices; blocks that divide none."""
  c = DivergenceConfig(beta, HeadConfig(1, 5.0, 0.8), HeadConfig(0), 5, 4)
  args = example(4)
  want = chunked(c, *args)
  made = mesh.make(sizes, explicit=explicit)
  with jax.set_mesh(made):
    rows = jax.NamedSharding(made, mesh.spec('batch', None))
    put = functools.partial(jax.device_put, device=rows)
    h, head, teacher_h, teacher_head, wanted, bar = args
    got = chunked(
      c, put(h), head, put(teacher_h), teacher_head, put(wanted), put(bar)
    )
  chex.assert_trees_all_close(
    jax.tree.map(np.asarray, got), want, rtol=1e-5, atol=1e-5
  )


def test_half_precision_sums_in_full():
  """bfloat16 hidden states: exact for the numbers they round to."""
  half = lambda x: jnp.asarray(x, jnp.bfloat16)  # noqa: E731
  h, head, teacher_h, teacher_head, wanted, bar = example(5)
  c = DivergenceConfig(0.5, HeadConfig(0), HeadConfig(0), 5, 7)
  out = chunked_divergence.token_divergence(
    c, half(h), half(head), half(teacher_h), half(teacher_head), wanted
  )
  rounded = [
    np.asarray(half(x), np.float64) for x in (h, head, teacher_h, teacher_head)
  ]
  want, *_ = dense(c, *rounded, wanted, bar)
  assert out.dtype == jnp.float32
  np.testing.assert_allclose(out, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize('beta', FORMULAS)
def test_values_are_those_of_its_formula_in_torch(beta):
  """That of TRL, written out: for where it is not installed."""
  torch = pytest.importorskip('torch')
  from torch.nn import functional as F

  h, head, teacher_h, teacher_head, wanted, bar = example(6)
  c = DivergenceConfig(beta, HeadConfig(0, 0, 0.9), HeadConfig(0, 0, 0.9), 5, 7)
  p = F.log_softmax(torch.tensor(h @ head.T) / 0.9, dim=-1)
  q = F.log_softmax(torch.tensor(teacher_h @ teacher_head.T) / 0.9, dim=-1)
  kl = functools.partial(F.kl_div, reduction='none', log_target=True)
  if beta == 0:
    each = kl(p, q)
  elif beta == 1:
    each = kl(q, p)
  else:
    b = torch.tensor(beta, dtype=p.dtype)
    mixed = torch.stack([p + torch.log1p(-b), q + torch.log(b)])
    m = torch.logsumexp(mixed, dim=0)
    each = b * kl(m, q) + (1 - b) * kl(m, p)
  out, *_ = chunked(c, h, head, teacher_h, teacher_head, wanted, bar)
  want = np.where(wanted, each.sum(-1).numpy(), 0)
  np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused():
  h, head, teacher_h, teacher_head, wanted, _ = example()
  call = functools.partial(chunked_divergence.token_divergence)
  with errors.raises(ValueError, 'beta 1.5 0'):
    call(DivergenceConfig(1.5), h, head, teacher_h, teacher_head, wanted)
  with errors.raises(ValueError, '23'):
    call(DivergenceConfig(), h, head, teacher_h, teacher_head[1:], wanted)


@pytest.mark.parametrize('beta', FORMULAS)
def test_the_same_as_trl(beta):
  """The loss and gradients of TRL's GKDTrainer, of equal logits."""
  torch = pytest.importorskip('torch')
  gkd = pytest.importorskip('trl.experimental.gkd')
  h, head, teacher_h, teacher_head, wanted, _ = example()
  x, w = (torch.tensor(a, requires_grad=True) for a in (h, head))
  loss = gkd.GKDTrainer.generalized_jsd_loss(
    x @ w.T,
    torch.tensor(teacher_h @ teacher_head.T),
    torch.tensor(np.where(wanted, 0, -100)),
    beta,
    reduction='sum',
  )
  loss.backward()
  ones = np.ones((N, T))
  args = h, head, teacher_h, teacher_head, wanted, ones
  out, dh, dhead = chunked(DivergenceConfig(beta), *args)
  want = loss.item(), x.grad.numpy(), w.grad.numpy()
  np.testing.assert_allclose(np.sum(out), want[0], rtol=1e-5)
  chex.assert_trees_all_close((dh, dhead), want[1:], rtol=2e-4, atol=2e-5)
