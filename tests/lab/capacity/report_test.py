"""Estimates from shapes: by hand, and against what the compiler says."""

import contextlib
import dataclasses
import json
import re

import huggingface_hub
import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.configs import grpo, oprl
from agentrl.lab.capacity import estimate as estimate_lib
from agentrl.lab.capacity import hardware, report
from agentrl.learner import update
from agentrl.model import hf_weights
from agentrl.rollout import tickets
from agentrl.run import algorithm
from agentrl.run.check import fields
from agentrl.run.stage import stage_state
from tests import checkpoints, errors


def estimate(c, where, path=None):
  return report.estimate(c, where, report.language(c, path))


def tiny(method=grpo):
  return method.get_config('tiny')


def test_the_table_and_what_a_role_costs():
  text = report.report(tiny(), 'v5e-16')
  assert 'on v5e-16: 16 devices, mesh of one' in text
  assert '15 devices are idle: set c.mesh.fsdp to -1.' in text
  assert 'It fits.\nThe fewest on which it fits: v5e-1.' in text
  one, two = (estimate(tiny(m), hardware.parse('1xL4')) for m in (grpo, oprl))
  assert two.memory.moments == 2 * one.memory.moments  # the PRM's
  assert two.flops.forward > one.flops.forward
  assert two.flops.rollout == one.flops.rollout


@pytest.fixture
def checkpoint(tmp_path):
  """A directory with a config.json of so many layers; no weights."""

  def write(layers: int) -> str:
    config = dict(
      model_type='qwen2',
      architectures=['Qwen2ForCausalLM'],
      hidden_size=4096,
      vocab_size=152_064,
      num_hidden_layers=layers,
      num_attention_heads=32,
      num_key_value_heads=8,
      intermediate_size=12_288,
      rms_norm_eps=1e-6,
      rope_theta=1e6,
      tie_word_embeddings=False,
      hidden_act='silu',
      initializer_range=0.02,
      max_position_embeddings=32_768,
    )
    (tmp_path / 'config.json').write_text(json.dumps(config))
    return str(tmp_path)

  return write


def test_what_to_change(checkpoint):
  path = checkpoint(16)
  c, where = tiny(), hardware.parse('8xH100')
  assert not report.fits(estimate(c, where, path), where)
  text = report.report(c, '8xH100', path)
  told = re.search(r'It does not fit\. With (.*) it needs', text)[1]
  for word in told.split():
    path_, value = re.fullmatch(r'--config\.(\S+)=(\S+)', word).groups()
    value = int(value) if value.isdecimal() else value
    c = fields.changed(c, {path_: value})
  # The command that is told makes it fit.
  assert report.fits(estimate(c, where, path), where)
  assert 'mesh.fsdp=8' in told


@pytest.mark.slow
def test_what_nothing_can_change(checkpoint):
  text = report.report(tiny(), 'v5e-4', checkpoint(64))
  assert re.search(r'does not fit, and neither .* \(LoRA\), or take more', text)


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['v5e-4', '1xH100', 'v5p-16'])
@pytest.mark.parametrize('layers', [2, 24])
def test_the_fewest_devices_on_which_it_fits(checkpoint, kind, layers):
  """With what is told it fits there, and on half of them in no way."""
  c, path = tiny(), checkpoint(layers)
  lm = report.language(c, path)
  text = report.fewest(c, hardware.parse(kind), lm)
  name, flags = re.fullmatch(
    r'The fewest on which it fits: (\S+?)(?: with (.+))?\.', text
  ).groups()
  there = hardware.parse(name)
  told = (flags or '').split()
  words = [x.removeprefix('--config.').split('=') for x in told]
  changes = {x: int(y) if y.isdigit() else y for x, y in words}
  changed = fields.changed(c, changes)
  assert report.fits(report.estimate(changed, there, lm), there)
  assert there.devices > 1 or layers == 2
  if there.devices > 1:
    half = hardware.scaled(there, there.devices // 2)
    assert 'It does not fit, and neither' in report.advice(c, half, lm)


def test_a_model_is_a_directory_or_a_name_on_the_hub(
  checkpoint, tmp_path, monkeypatch
):
  asked = []

  def fetch(name, **how):
    asked.append((name, how['allow_patterns']))
    if name == 'nobody/none':
      raise ValueError('no such name')
    return checkpoint(2)

  monkeypatch.setattr(huggingface_hub, 'snapshot_download', fetch)
  text = report.report(tiny(), 'v5e-16', 'somebody/small')
  assert text == report.report(tiny(), 'v5e-16', checkpoint(2))
  assert asked == [('somebody/small', hf_weights.TEXTS)]
  with errors.raises(ValueError, '--model nobody/none'):
    report.report(tiny(), 'v5e-16', 'nobody/none')


def test_adapters_cost_what_they_are():
  """One base for all roles; it is neither trained nor gone through alone."""
  where, plain, lean = hardware.parse('8xH100'), tiny(oprl), tiny(oprl)
  lean.lora.rank = 4
  for c in (plain, lean):
    c.mesh.fsdp = 8
  plain, lean = estimate(plain, where), estimate(lean, where)
  two = 2 * lean.memory.gradients  # adapters beside one decoder
  assert lean.memory.parameters == plain.memory.parameters / 2 + two
  assert lean.memory.moments < plain.memory.moments / 4
  assert lean.flops.forward == plain.flops.forward
  assert lean.flops.backward == plain.flops.backward / 2
  c = tiny()
  c.lora.rank = 4
  huge = report.language(c)
  huge = huge._replace(shape=dataclasses.replace(huge.shape, mlp=10**9))
  assert 'LoRA' not in report.advice(c, hardware.parse('1xL4'), huge)


def test_slot_engines_stay_beside_updates():
  """The policy's and one of each model that is a user or a judge."""
  where = hardware.parse('1xL4')
  c = grpo.get_config('tiny,env=interview,judge')
  c.service.judge.function = c.service.user.function
  alone = estimate(c, where)
  assert alone.memory.rollout == 0 < alone.memory.engines
  one = alone.memory.engines
  for who in ('user', 'judge'):  # of one capacity: they share a model
    c.service[who].update(function='', role='policy', context=512)
  shared = estimate(c, where)
  assert len(shared.work.engines) == 2
  c.service.judge.update(role='', run='runs/other')
  other = estimate(c, where)
  parameters = other.memory.parameters
  two = shared.memory.engines - one
  assert other.memory.engines == pytest.approx(one + 2 * two + parameters)
  assert other.memory.peak - shared.memory.peak == pytest.approx(
    two + parameters
  )


def test_a_chat_has_a_frame(tmp_path):
  """Tokens are those of the checkpoint, if its tokenizer is there."""
  c, where = tiny(), hardware.parse('1xL4')
  c.rollout.update(max_message_tokens=16, context=0)
  checkpoints.model(checkpoints.chat(tmp_path, 'chatml'))
  c.model.path = str(tmp_path)
  framed = estimate(c, where)
  assert 'in a chat' in report.report(c, '1xL4')
  c.rollout.chat_format = 'bare'
  assert 'without a chat' in report.report(c, '1xL4')
  assert framed.work.read > estimate(c, where).work.read
  (tmp_path / 'tokenizer.json').unlink()
  assert 'tokenizer embedded' in report.report(c, '1xL4')


def test_seconds_are_of_products_or_of_the_memory():
  c, where = tiny(), hardware.parse('1xL4')
  few = estimate(c, where)
  few = few._replace(flops=few.flops._replace(rollout=0))
  update, rollout = report.seconds(few, where)
  assert update == (few.flops.forward + few.flops.backward) / where.chip.flops
  # A token in every slot takes a pass over the weights.
  passes = few.work.turns * few.work.message
  assert rollout == passes * few.weights / where.chip.bandwidth
  many = few._replace(flops=few.flops._replace(rollout=1e30))
  assert report.seconds(many, where)[1] == 1e30 / where.chip.flops
  half = few._replace(work=few.work._replace(slots=few.work.batch // 2))
  assert report.seconds(half, where)[1] == 2 * rollout


def stale(method=grpo, rank=0, arg='tiny', **changes):
  c = method.get_config(arg)
  c.lora.rank = rank
  c.staleness.update(dict(bound=3, anchor='behaviour') | changes)
  return c


def kept(c, **changes):
  """(copies, the policy's parameters, the base's) that the config needs."""
  c = fields.read(c)
  learner = algorithm.make_algorithm(c, report.language(c).shape)
  state = update.init(learner, jax.random.key(0))
  state = stage_state.init_past([(c, learner)], state)
  sizes = dict.fromkeys(mesh.AXES, 1)
  found = report.copies(c, learner)
  told = estimate_lib.versions(learner, sizes, found._replace(**changes))
  return state, told, found


def size(tree) -> int:
  return sum(x.nbytes for x in jax.tree.leaves(tree))


@pytest.mark.parametrize('rank', [0, 2])
def test_a_state_holds_what_is_counted(rank):
  """Parameters of earlier versions; of adapters, without their base."""
  state, told, found = kept(stale(rank=rank))
  assert found.published == 0  # inside jit: the state alone
  assert told == size([x.params for x in state.past]) > 0
  assert told == 3 * size(state.params['policy'])
  latest = stale(order='latest', depth=1, rank=rank)
  state, told, found = kept(latest, published=0)
  assert not state.past
  assert told == 0


@pytest.mark.parametrize(
  ('changes', 'copies'), [({}, 4), ({'order': 'latest', 'depth': 2}, 3)]
)
@pytest.mark.parametrize('rank', [0, 2])
def test_samplers_in_threads_hold_what_is_counted(rank, changes, copies):
  """S + 1 versions, or the newest and what running batches began with."""
  c = stale(arg='tiny,env=countdown', rank=rank, **changes)
  state, told, found = kept(c, past=0)
  assert found.published == copies
  policy = size(state.params['policy'])
  assert told == copies * policy + size(state.params.get('base', ()))
  if not changes:
    published = []
    played = tickets.Tickets(
      tickets.Book(3, 'fixed', first=0, end=1),
      task=lambda state, n: None,
      collectors=[lambda *args: (None, {})],
      reads=algorithm.reads(fields.read(c), algorithm_of(c)),
      publish=lambda tree: published.append(tree) or tree,
    )
    with contextlib.closing(played):
      played.collect(state, None, 0)
    parameters = [
      x for x in jax.tree.leaves(published) if x.dtype == np.float32
    ]
    assert size(parameters) == told


def algorithm_of(c):
  c = fields.read(c)
  return algorithm.make_algorithm(c, report.language(c).shape)


def test_copies_are_beside_everything_else():
  where = hardware.parse('1xL4')
  young, old = tiny(), stale()
  young, old = estimate(young, where), estimate(old, where)
  assert old.memory.versions == 3 * old.memory.parameters
  assert old.memory.peak == young.memory.peak + old.memory.versions
  split = stale()
  split.mesh.fsdp = 4
  four = estimate(split, hardware.parse('4xL4'))
  assert four.memory.versions == 3 * four.memory.parameters
  assert 'versions' in report.report(stale(), '1xL4')


def test_devices_that_collect_are_apart():
  """The mesh has the others; one that collects has parameters whole."""
  c = stale(devices=4, order='latest')
  c.mesh.fsdp = -1
  with errors.raises(ValueError, 'staleness.devices=4 mesh'):
    estimate(c, hardware.parse('4xH100'))
  c.mesh.fsdp = 4
  where = hardware.parse('8xH100')
  apart = estimate(c, where)
  together = tiny()
  together.mesh.fsdp = 4
  together = estimate(together, hardware.parse('4xH100'))
  assert apart.memory == together.memory
  whole = estimate(tiny(), hardware.parse('1xH100')).memory.parameters
  assert apart.sampler.versions == pytest.approx(2 * whole)
  text = report.report(c, '8xH100')
  assert '8 devices, mesh fsdp=4, 4 that collect' in text
  assert 'idle' not in text
  # The fuller of both must fit.
  big = apart._replace(sampler=apart.sampler._replace(versions=1e12))
  assert report.fits(apart, where)
  assert not report.fits(big, where)


def test_a_pace_is_of_the_devices_of_the_config():
  """On 4 that learn and 4 that collect, or on 8 that do both."""
  apart = stale(devices=4)
  apart.mesh.fsdp = 4
  together = tiny()
  together.mesh.fsdp = 8
  for c, seconds in ((apart, '20 s'), (together, '40 s')):
    text = report.report(c, '8xH100', measured='30,10')
    assert f'staleness.devices=6: {seconds}' in text
    assert 'staleness.bound=3' in text
  with errors.raises(ValueError, '--measured 30,0'):
    report.report(tiny(), '8xH100', measured='30,0')


def test_bad_input():
  c = tiny()
  c.mesh.fsdp = 3
  with errors.raises(ValueError, '3 2'):
    report.report(c, '2xH100')
  with errors.raises(ValueError, '3 mesh.fsdp'):
    report.report(c, '3xH100')
