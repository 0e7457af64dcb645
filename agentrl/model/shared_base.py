"""Roles that share one frozen base and have an adapter each (nn/lora.py)."""

from agentrl.nn import lora
from agentrl.types import Module, PyTree, Share

BASE = 'base'  # the role that holds the decoder all others share
OWN = 'lora'  # where a role's parameters hold its adapter


def modules(
  full: dict[str, Module], base: Module, c: lora.Lora
) -> dict[str, Module]:
  """Returns the modules of all roles, on one base that is a role of its own.

  Args:
    full: by role, each a decoder of its own and what stands beside it
    base: the decoder alone
  Raises: ValueError if a role has the base's name, or the pattern matches
    nothing.
  """
  if BASE in full:
    raise ValueError(
      f'c.role.{BASE} is the name of what adapters share (lora.rank={c.rank});'
      ' call the role something else, or set lora.rank to 0'
    )
  out = {role: module(m, base.specs, c) for role, m in full.items()}
  return {BASE: base, **out}


def module(full: Module, base: dict[str, PyTree], c: lora.Lora) -> Module:
  """Returns the module with an adapter in place of its decoder.

  Its own parameters are {'lora': the adapter} and what stands beside the
  decoder, such as value heads.

  Args:
    full: its specs are the base's and those of what stands beside it
    base: specs of the decoder
  """
  beside = {name: p for name, p in full.specs.items() if name not in base}

  def join(own: PyTree, shared: PyTree) -> PyTree:
    attached = lora.attach(c, shared, own[OWN])
    return attached | {name: own[name] for name in beside}

  specs = {OWN: lora.specs(c, base['layers']), **beside}
  return Module(specs, full.apply, Share(BASE, join), full.head)
