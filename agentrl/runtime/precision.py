"""Precision of products: float32 is multiplied as float32 on every device.

Left to itself JAX takes TF32 on GPUs and bfloat16 on TPUs, and what a sampler
and a learner compute of the same tokens lies 1e-3 apart. Its own setting wins:
--jax_default_matmul_precision, or the variable of that name in capitals. Inside
of a Pallas kernel (attention by splash) the kernel decides.
"""

import jax
import jax.numpy as jnp

AUTO = 'auto'


def of_device(dtype: str) -> str:
  """Returns the compute dtype; AUTO is the faster one on this device.

  bfloat16 on GPUs and TPUs. CPUs, with instructions for it or without, were not
  faster with a decoder of 135M parameters, and lose digits: float32.
  """
  if dtype != AUTO:
    return dtype
  return 'float32' if jax.default_backend() == 'cpu' else 'bfloat16'


def einsum(formula: str, *factors: jax.Array, **options) -> jax.Array:
  """Runs jnp.einsum at that precision. options: its other arguments."""
  exact = of_product(*factors)
  return jnp.einsum(formula, *factors, precision=exact, **options)


def of_product(*factors: jax.Array) -> jax.lax.Precision | None:
  """Returns HIGHEST if the factors' product is float32; None: JAX's default."""
  setting = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
  if setting is not None:
    return None
  wide = jnp.result_type(*factors) == jnp.float32
  return jax.lax.Precision.HIGHEST if wide else None
