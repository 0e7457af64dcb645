"""Compiled programs beside estimates; with TPU's compiler, where it is."""

import dataclasses
import importlib.util

import pytest

from agentrl.configs import grpo, oprl, spear
from agentrl.lab.bench import sampling
from agentrl.lab.capacity import hardware
from agentrl.lab.capacity.estimate import Workload
from agentrl.lab.capacity.compiled import compiler, hlo, table
from tests import errors

missing = importlib.util.find_spec('libtpu') is None
needs_compiler = pytest.mark.skipif(missing, reason='extra tpu-compile')
SMALL = sampling.QWEN['0.5B']
WORK = Workload(
  rows=8,
  tokens=1024,
  micro=8,
  epochs=1,
  batch=8,
  slots=8,
  turns=4,
  read=64,
  message=192,
  afresh=False,
  capacity=1024,
)


def config(method=grpo, **sizes):
  c = method.get_config()
  c.mesh.update(sizes)
  c.micro_batch = WORK.micro
  c.hp.minibatch.minibatches.n = 1
  return c


def program(**bytes_by_kind) -> compiler.CompiledProgram:
  each = tuple(
    hlo.Collective(kind.replace('_', '-'), '', 8, 1, size)
    for kind, size in bytes_by_kind.items()
  )
  return compiler.CompiledProgram(2e9, 1e9, each, (), '')


def test_reductions_bound_the_utilisation_and_gathers_do_not():
  where = hardware.parse('v5e-8')
  c = config(fsdp=8)

  def bound(remat: str, **sent) -> float:
    shape = dataclasses.replace(SMALL, remat=remat)
    return table.utilisation(c, shape, WORK, where, program(**sent))

  free = bound('none', all_gather=1e12)
  assert free == pytest.approx(1, abs=1e-6)  # nothing is computed again
  again = bound('layer')
  assert 0.7 < again < 0.8  # of four products three
  assert bound('layer', reduce_scatter=1e9) < again
  assert program().temporaries == 1e9


def test_what_is_no_program_or_cannot_be_compiled_for_is_refused():
  with errors.raises(ValueError, 'updat update'):
    table.check(config(), ['updat'], hardware.parse('v5e-8'))
  with pytest.raises(ValueError):
    table.check(config(), ['update'], hardware.parse('8xH100'))


def test_a_rollout_of_host_environments_is_no_program():
  c = grpo.get_config('env=countdown')
  with errors.raises(ValueError, 'rollout'):
    table.check(c, ['update', 'rollout'], hardware.parse('v5e-8'))


@pytest.mark.skipif(not missing, reason='it is installed')
def test_without_the_compiler_the_extra_is_named():
  with pytest.raises(ValueError):
    table.check(config(), ['update'], hardware.parse('v5e-8'))


@pytest.mark.nightly
@needs_compiler
@pytest.mark.parametrize('method', [grpo, oprl], ids=['grpo', 'oprl'])
def test_no_value_of_an_update_is_larger_than_its_piece(method):
  """0.5B on eight chips: neither vocabulary nor its gradient is ever whole."""
  c, where = config(method, fsdp=8), hardware.parse('v5e-8')
  made = table.compiled(c, SMALL, WORK, where, 'update')
  piece = SMALL.vocab * SMALL.width * 4 / 8
  size, shape = made.largest[0]
  assert size <= piece * 1.01, shape
  roles = 2 if method is oprl else 1
  assert made.arguments == pytest.approx(roles * 12 * 494e6 / 8, rel=0.05)
  assert made.temporaries < (0.6 + 0.3 * roles) * 1e9
  kinds = hlo.totals(made.collectives)
  assert kinds['reduce-scatter'] > kinds['all-reduce']


@pytest.mark.nightly
@needs_compiler
def test_decoding_fits_beside_an_update():
  c, where = config(fsdp=8), hardware.parse('v5e-8')
  made = table.compiled(c, SMALL, WORK, where, 'decode')
  assert made.hbm < 4e9


@pytest.mark.nightly
@needs_compiler
def test_a_rollout_inside_jit_compiles():
  c = config(fsdp=8)
  made = table.compiled(c, SMALL, WORK, hardware.parse('v5e-8'), 'rollout')
  assert made.hbm < 3e9
  assert 'all-gather' in hlo.totals(made.collectives)  # parameters, once


@pytest.mark.nightly
@needs_compiler
def test_a_program_that_remembers_is_refused_in_the_compilers_words():
  c = config(spear, fsdp=8)
  with pytest.raises(RuntimeError):
    table.compiled(c, SMALL, WORK, hardware.parse('v5e-8'), 'update')
