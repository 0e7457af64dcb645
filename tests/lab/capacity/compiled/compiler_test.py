"""A process that compiles is read, killed or quoted."""

import pathlib

import pytest

from agentrl.lab.capacity.compiled import compiler, targets
from agentrl.lab.capacity.compiled.counts import Counts
from agentrl.lab.capacity.compiled.graphs import Graphs
from agentrl.lab.capacity.estimate import Workload
from agentrl.nn.config import DecoderConfig
from tests import errors

ROOT = pathlib.Path(__file__).parent.parent.parent.parent.parent
SHAPE = DecoderConfig(
  vocab=8, width=4, layers=1, heads=1, kv_heads=1, head_dim=4, mlp=4
)
WORK = Workload(
  rows=6,
  tokens=8,
  micro=4,
  epochs=1,
  batch=6,
  slots=2,
  turns=1,
  read=4,
  message=4,
  afresh=False,
  capacity=8,
)


@pytest.fixture(autouse=True)
def child(monkeypatch):
  monkeypatch.setattr(
    compiler, 'CHILD', 'tests.lab.capacity.compiled.fake_child'
  )
  monkeypatch.setattr(targets, 'check_available', lambda platform: None)
  monkeypatch.chdir(ROOT)


TPU = targets.Target('tpu', 'v5e:2x4')
CARD = targets.Target('cuda', '1x1x1', 'h100.txtpb')


def job(program: str, target: targets.Target = TPU) -> compiler.CompileJob:
  return compiler.CompileJob({}, SHAPE, target, program, WORK)


def test_the_schedule_is_read_and_code_generation_not_awaited():
  made = compiler.compiled(job('scheduled'))
  assert (made.hbm, made.arguments, made.temporaries) == (96, 32, 64)
  assert [x.kind for x in made.collectives] == ['all-reduce']
  assert made.largest[0] == (32, 'f32[8]')
  assert not made.refused
  assert made.counts == Counts(least=1, most=1)
  assert not made.graphs[0].graphs


@pytest.mark.slow
def test_of_a_card_graphs_are_read_as_well():
  made = compiler.compiled(job('scheduled', CARD))
  assert made.graphs == (Graphs(graphs=1, captured=1, alone=1),)


@pytest.mark.slow
def test_what_does_not_fit_is_told_with_its_size():
  made = compiler.compiled(job('refused'))
  assert made.hbm == 20.5 * 2**30
  assert 'exceeds available HBM (15.75G)' in made.refused


@pytest.mark.slow
@pytest.mark.parametrize(
  ('program', 'seconds', 'words'),
  [
    ('broken', 600, 'broken 1'),
    ('slow', 0.1, ''),
  ],
)
def test_other_failures_are_errors(program, seconds, words):
  with errors.raises(RuntimeError, words):
    compiler.compiled(job(program), seconds)
