"""Teachers: roles with whose whole distributions the policy's are compared.

A loss term that needs 'output:divergence' names by its hyper-parameters the
role, the reading of the batch that it reads, and β of nn/chunked_divergence.py.
Losses run no model, so the learner does:

  once an iteration   the teacher's hidden states of all rows, [N, T, D], by
                      micro-batches and without a gradient
  each micro-batch    the policy's own hidden states, and both heads over all
                      words, block by block

What is held of the teacher is N T D numbers as the model computes, never
[N, T, V].
"""

from typing import NamedTuple

from agentrl import registry
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.model import microbatch
from agentrl.nn import chunked_divergence
from agentrl.nn.chunked_divergence import DivergenceConfig
from agentrl.nn.vocab_blocks import HeadConfig
from agentrl.types import Array, Batch, Module, PyTree

OUTPUT = 'divergence'


class Comparison(NamedTuple):
  """Hyper-parameters of the term that compares distributions."""

  term: str
  role: str
  reading: str
  beta: float


class TeacherOutputs(NamedTuple):
  """The teacher's side of the comparison, fixed for an iteration."""

  hidden: Array  # [N, T, D] that predict the rows' tokens
  head: Array  # [V, D] or [D, V]
  head_config: HeadConfig
  beta: float


def comparison(w: registry.MethodSpec) -> Comparison | None:
  """Returns the comparison that loss terms ask for; None: none of them does.

  Raises: ValueError if several do: outputs hold one divergence.
  """
  terms = [
    name
    for name in w.loss
    if f'output:{OUTPUT}' in registry.get('loss', name).needs
  ]
  if len(terms) > 1:
    raise ValueError(
      f'c.loss names {tuple(terms)}, and only one term of a run can be the'
      ' divergence from a teacher; leave the others out'
    )
  if not terms:
    return None
  (name,) = terms
  values = registry.settings(registry.get('loss', name), w.values(name, name))
  names = ('role', 'reading', 'beta')
  return Comparison(name, *(values[x] for x in names))


def outputs(
  alg: Algorithm, params: dict[str, PyTree], batch: Batch
) -> TeacherOutputs | None:
  """Returns the teacher's side of the batch's rows; None if no term compares.

  Args:
    params: of all roles, as in TrainState
  """
  compared = comparison(alg.spec)
  if compared is None:
    return None
  role = compared.role
  read = compared.reading
  out = alg.context.reread(role, params[role], batch, read, 'hidden')
  head, config = _head(alg.context.modules[role], params[role])
  assert out.hidden is not None
  return TeacherOutputs(out.hidden, head, config, compared.beta)


def reader(
  alg: Algorithm, needs: tuple[str, ...], other: TeacherOutputs | None
) -> microbatch.Reader:
  """Reads the policy's outputs of rows, beside the teacher's hidden states.

  Args:
    other: the teacher's side; None: there is nothing beside the rows
  """
  module = alg.context.modules[POLICY]
  if other is None:
    return microbatch.reader(module.apply, needs)
  names = tuple(sorted({*needs, 'hidden'} - {OUTPUT}))

  def read(params, rows, hidden_NTD):
    out = module.apply(params, rows, names)
    head, config = _head(module, params)
    value = chunked_divergence.token_divergence(
      DivergenceConfig(other.beta, config, other.head_config),
      out.hidden,
      head,
      hidden_NTD,
      other.head,
      microbatch.wanted(rows),
    )
    return out.replace(hidden=None, divergence=value)

  return read


def _head(module: Module, params: PyTree) -> tuple[Array, HeadConfig]:
  assert module.head is not None, (
    'run/check/role_checks.py wants a language model'
  )
  return module.head(params)
