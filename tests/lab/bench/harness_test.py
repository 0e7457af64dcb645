"""The benchmark runs, and counts what it compares itself with correctly."""

import json

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

# Defines flags when it is first imported, which flagsaver would take away.
from array_record.python import array_record_data_source  # noqa: F401

from agentrl.experiments import bench
from agentrl.lab.bench import harness, room, sampling
from agentrl.rollout import record
from tests import errors


def _parsed_flags():
  if not flags.FLAGS.is_parsed():
    flags.FLAGS(['bench'])


@pytest.fixture(scope='module')
def measured(tmp_path_factory):
  """What `python -m experiments.bench --size=tiny --json=...` wrote."""
  folder = tmp_path_factory.mktemp('bench')
  path = str(folder / 'bench.json')
  _parsed_flags()
  here = dict(json=path, size='tiny', repeats=1, data=str(folder / 'data'))
  with flagsaver.flagsaver(**here):
    bench.main()
  with open(path, encoding='utf-8') as f:
    return json.load(f)


@pytest.mark.nightly
def test_every_section_has_its_figures(measured):
  names = {f['name'] for f in measured['figures']}
  assert names == {
    'decode',
    'decode_cache_8x',
    'decode_message_8x',
    'decode_slots',
    'decode_group',
    'prefill',
    'rollout',
    'rollout_full',
    'rollout_full_8x',
    'train_grpo',
    'train_oprl',
    'iteration',
    'gradient',
    'attention_chunked',
    'attention_xla',
    'vocab_logprob',
    'vocab_forward_kl',
    'vocab_reverse_kl',
    'vocab_jensen',
  }
  assert measured['growth'].keys() == {
    'decode_cache_8x',
    'decode_message_8x',
    'decode_slots',
    'rollout_full_8x',
    'vocab_forward_kl',
    'vocab_reverse_kl',
    'vocab_jensen',
  }
  assert measured['rates'].keys() == harness.SECTIONS.keys()
  assert 'cpu' in measured['device']


@pytest.mark.nightly
def test_every_figure_stands_beside_its_bound(measured):
  for f in measured['figures']:
    s = f['seconds']
    assert 0 < s['low'] <= s['median'] <= s['high']
    assert f['operations'] > 0
    assert f['bytes'] > 0
    assert f['shapes']
    assert f['ratio'] == pytest.approx(s['median'] / f['bound_seconds'])
    for name, x in f['per_second'].items():
      assert x > 0, name


@pytest.mark.nightly
def test_figures_of_one_size_count_the_same_work(measured):
  f = {f['name']: f for f in measured['figures']}
  ops = {name: x['operations'] for name, x in f.items()}
  assert ops['decode'] == ops['decode_cache_8x'] == ops['decode_message_8x']
  assert ops['rollout_full'] == ops['rollout_full_8x'] > ops['rollout']
  assert ops['train_oprl'] == 2 * ops['train_grpo']
  # The iteration samples and then trains: 32 messages as `decode` says them.
  assert ops['iteration'] > ops['decode'] > ops['prefill']


@pytest.mark.slow
def test_a_case_without_a_bound_is_timed_all_the_same():
  told = []
  out = harness.run(sampling.TINY, '', 1, ['store'], told.append)
  build, read = out['figures']
  assert build['per_second']['trajectories'] > 0
  assert 'ratio' not in read
  assert any('store_read' in x for x in told)


@pytest.mark.nightly
def test_room_that_is_not_used_leaves_what_an_update_reads(tmp_path):
  size, data = sampling.TINY, str(tmp_path)
  out = harness.run(size, data, 1, ['room'], lambda _: None)
  tokens = {
    f['name']: f['per_second']['tokens'] / f['per_second']['updates']
    for f in out['figures']
  }
  for world in ('host', 'jit'):
    same = [x for name, x in tokens.items() if world in name]
    assert len(same) == 4
    np.testing.assert_allclose(same, same[0])
  assert out['growth'].keys() == tokens.keys() - {'update_host', 'update_jit'}


@pytest.mark.parametrize(
  ('what', 'shape'),
  [('', (2, 3, 4)), ('turns', (2, 24, 4)), ('messages', (2, 3, 32))],
)
def test_a_record_with_more_room_holds_the_same(what, shape):
  r = record.empty(2, 3, 5, 4, ('found',), np)
  r = r.replace(message=np.ones((2, 3, 4), np.int32))
  wide = room.widened(r, what)
  assert wide.message.shape == shape
  assert wide.context.shape == (2, shape[1], 5)
  assert wide.columns['found'].shape == shape[:2]
  assert wide.message.sum() == r.message.sum()


def test_unknown_section():
  with errors.raises(ValueError, '--only sleep'):
    harness.run(sampling.TINY, '', 1, ['sleep'])
