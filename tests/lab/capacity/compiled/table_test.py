"""Compiled programs beside estimates; with TPU's compiler, where it is."""

import dataclasses
import importlib.util

import pytest

from agentrl.configs import grpo, oprl, spear
from agentrl.lab.bench import sampling
from agentrl.lab.capacity import hardware
from agentrl.lab.capacity.compiled import compiler, hlo, table
from agentrl.lab.capacity.compiled.counts import Counts, Loop
from agentrl.lab.capacity.compiled.graphs import Graphs
from agentrl.lab.capacity.estimate import Workload
from tests import errors

missing = importlib.util.find_spec('libtpu') is None
needs_compiler = pytest.mark.skipif(missing, reason='extra tpu-compile')
needs_cuda = pytest.mark.skipif(
  importlib.util.find_spec('jax_cuda13_plugin') is None,
  reason='XLA for an H100 is not installed: extra cuda-compile',
)
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
    hlo.Collective(kind.replace('_', '-'), '', tuple(range(8)), 1, size)
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
    table.check(config(), ['update'], hardware.parse('8xA100'))


def test_kernels_are_shown_by_loops():
  loops = (
    Loop('jit(f)/while', 0, None, Counts(most=700, conditionals=24), 'token'),
    Loop('jit(f)/while/jvp()/while', 1, 24, Counts(most=30), 'layer'),
    Loop('jit(f)/while/copy', 0, 8, Counts(most=3), 'copy'),
  )
  made = program()._replace(
    counts=Counts(most=5700, casts=7),
    loops=loops,
    layers=(29, 30, 0),
    graphs=(Graphs(1, 2, 3), Graphs(4, 5, 6), Graphs(7, 8, 9), Graphs()),
  )
  _, *rows = (x.split() for x in table.kernels(made))
  assert rows[0][:2] == ['all', '5700']
  assert rows[1][:5] == ['loop', 'data', '700', '29', '24']
  assert rows[1][-2:] == ['4', '6']  # graphs, and kernels in none
  assert rows[2][:4] == ['forward', '24', '30', '30']
  assert len(rows) == 3  # the last loop is too short to be shown


@pytest.mark.parametrize(('size', 'refused'), [(79e9, False), (81e9, True)])
def test_what_is_larger_than_a_card_is_refused(monkeypatch, size, refused):
  made = program()._replace(hbm=size)
  monkeypatch.setattr(compiler, 'compiled', lambda job: made)
  where = hardware.parse('h100-1')
  got = table.compiled(config(), SMALL, WORK, where, 'update')
  assert bool(got.refused) == refused


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


SHALLOW = dataclasses.replace(SMALL, layers=12, vocab=8192)


@pytest.mark.nightly
@needs_cuda
@pytest.mark.parametrize(('attention', 'most'), [('xla', 15), ('pallas', 12)])
def test_a_token_of_a_card_is_one_graph_of_few_kernels(attention, most):
  """0.5B's widths in twelve layers, 8 slots of 1,024 positions on one H100."""
  where = hardware.parse('h100-1')
  shape = dataclasses.replace(SHALLOW, decode_attention=attention)
  made = table.compiled(config(), shape, WORK, where, 'decode')
  (token,) = [x for x in made.loops if x.trip.most > table.SHORT]
  at = made.loops.index(token)
  assert token.trip.casts == 0  # parameters are cast before the loop
  assert token.trip.conditionals <= 1  # of truncated distributions
  assert 10 < made.layers[at] <= most
  assert made.graphs[at + 1].graphs == 1
  assert made.graphs[at + 1].alone < table.SHORT
  assert made.hbm < 0.45e9


@pytest.mark.nightly
@needs_cuda
def test_a_layer_of_an_update_for_a_card_is_few_kernels():
  where = hardware.parse('h100-1')
  made = table.compiled(config(), SHALLOW, WORK, where, 'update')
  forward, backward = [x for x in made.loops if x.trips == SHALLOW.layers]
  assert 10 < forward.trip.most <= 25
  assert 10 < backward.trip.most <= 90
  for x in (forward, backward):
    assert x.trip.conditionals == 0
    assert x.trip.casts <= 7  # matrices of a layer
  assert made.hbm < 3.9e9


@pytest.mark.nightly
@needs_cuda
def test_several_cards_send_along_their_axes():
  where, c = hardware.parse('8xH100'), config(fsdp=4, tensor=2)
  made = table.compiled(c, SHALLOW, WORK, where, 'update')
  sent = hlo.by_axes(made.collectives, {'fsdp': 4, 'tensor': 2})
  # Parameters and gradients; activations.
  assert sent['fsdp'] > 1e8
  assert sent['tensor'] > 1e8
