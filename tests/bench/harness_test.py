"""The benchmark runs, and counts what it compares itself with correctly."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

# Defines flags when it is first imported, which flagsaver would take away.
from array_record.python import array_record_data_source  # noqa: F401

from agentrl import mesh
from agentrl.bench import harness, peers, roofline, sampling
from agentrl.experiments import bench
from agentrl.nn import transformer

SMALL = transformer.Shape(
  vocab=10, width=4, layers=3, heads=2, kv_heads=1, head_dim=2, mlp=5
)
WIDE = transformer.Shape(
  vocab=128, width=64, layers=2, heads=4, kv_heads=2, head_dim=16, mlp=160
)


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


@pytest.mark.slow
def test_every_section_has_its_figures(measured):
  names = {f['name'] for f in measured['figures']}
  assert names == {
    'decode', 'decode_cache_8x', 'decode_message_8x', 'decode_slots',
    'prefill', 'rollout',
    'rollout_full', 'rollout_full_8x', 'train_grpo', 'train_oprl', 'iteration',
    'gradient',
  }  # fmt: skip
  assert measured['growth'].keys() == harness.GROWTH.keys()
  assert measured['rates'].keys() == harness.SECTIONS.keys()
  assert 'cpu' in measured['device']


@pytest.mark.slow
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


@pytest.mark.slow
def test_figures_of_one_size_count_the_same_work(measured):
  f = {f['name']: f for f in measured['figures']}
  ops = {name: x['operations'] for name, x in f.items()}
  assert ops['decode'] == ops['decode_cache_8x'] == ops['decode_message_8x']
  assert ops['rollout_full'] == ops['rollout_full_8x'] > ops['rollout']
  assert ops['train_oprl'] == 2 * ops['train_grpo']
  # The iteration samples and then trains: 32 messages as `decode` says them.
  assert ops['iteration'] > ops['decode'] > ops['prefill']


def test_parameters_at_the_size_of_the_comparison():
  count = mesh.count(transformer.specs(sampling.FULL.shape))
  assert count == 4_983_040


def test_weights_by_hand():
  # q, o: 4 x 4 each; k, v: 4 x 2 each; gate, up, down: 4 x 5 each.
  assert roofline.body(SMALL) == 3 * (2 * 16 + 2 * 8 + 3 * 20)


def test_pairs_by_hand():
  # 2 tokens after 3 others: 4 + 5 keys; 3 tokens first: 1 + 2 + 3.
  assert roofline.pairs(np.array([3, 0]), np.array([2, 3])) == 9 + 6


def test_speaking_by_hand():
  prefill, decode = roofline.speaking(
    SMALL, np.array([0]), np.array([2]), np.array([3]), slots=1
  )
  weights, head = 2 * 324, 2 * 4 * 10
  pair = 4 * 3 * 2 * 2  # scores and sums: 2 products, 3 layers, 2 heads of 2
  assert prefill.operations == 2 * weights + 3 * pair + head
  # Two of the three tokens said are read back, at positions 2 and 3.
  assert decode.operations == 2 * weights + (3 + 4) * pair + 2 * head
  key = 4 * 2 * 3 * 1 * 2  # bytes of a key and a value in 3 layers
  size = 4 * mesh.count(transformer.specs(SMALL))
  assert prefill.bytes == size + 2 * key
  assert decode.bytes == 2 * size + (3 + 4) * key
  assert [prefill.few, decode.few] == [False, True]


def test_forward_pass_against_the_compiler():
  n, t = 4, 8
  params = mesh.init(transformer.specs(WIDE), jax.random.key(0))
  tokens = jnp.ones((n, t), jnp.int32)

  def run(params, tokens):
    hidden = transformer.forward(WIDE, params, tokens, jnp.zeros_like(tokens))
    return transformer.logits(params, hidden)

  compiled = jax.jit(run).lower(params, tokens).compile()
  own = roofline.reading(WIDE, np.zeros(n), np.full(n, t), heads=n * t)
  # The compiler also counts norms, rotations, softmax and masked pairs.
  assert own < compiled.cost_analysis()['flops'] < 1.1 * own


def test_update_is_three_forward_passes_of_each_role():
  length = np.array([5, 0, 3])
  forward = roofline.reading(SMALL, 0 * length, length, heads=4)
  (two,) = roofline.updating(SMALL, length, 4, roles=2)
  assert two.operations == 2 * 3 * forward


def test_bound_takes_the_slower_of_products_and_copies():
  rates = roofline.Rates(large=100.0, few=10.0, copy=50.0)
  parts = (
    roofline.Part(operations=200.0, bytes=50.0),  # 2 s of products
    roofline.Part(operations=20.0, bytes=250.0, few=True),  # 5 s of copies
  )
  assert roofline.bound(parts, rates) == 2 + 5


def test_a_message_may_be_eight_times_as_long_and_ends_at_its_end():
  size = sampling.TINY
  cases = sampling.decode(size, '')
  said = cases['decode_message_8x'].call()
  assert said.tokens.shape == (size.batch, sampling.ALLOWED * size.new)
  np.testing.assert_array_equal(said.length, size.new)
  said = cases['decode'].call()
  np.testing.assert_array_equal(said.length, size.new)
  assert np.all(np.asarray(said.logp) < 0)


def test_unknown_section():
  with pytest.raises(ValueError, match=r"--only names 'sleep'.*decode,prefill"):
    harness.run(sampling.TINY, '', 1, ['sleep'])


def test_peers_are_skipped_with_a_sentence(tmp_path):
  told = []
  pythons = {'tunix': '', 'trl': str(tmp_path / 'python')}
  out = peers.compare(
    str(tmp_path), pythons, lambda: pytest.fail('not needed'), 2, told.append
  )
  assert out == {}
  assert '--tunix_python is not given' in told[0]
  assert f'--trl_python={tmp_path}/python does not exist' in told[1]
  pythons = dict.fromkeys(pythons, sys.executable)
  reasons = peers.missing(str(tmp_path), pythons)
  assert 'bench_tunix.py does not exist; set --peers' in reasons['tunix']


SCRIPT = """
import json
print('Loading {', {'loss': 1.0})
print(json.dumps({'end_to_end_tokens_per_s': 50.0, 'deep': {'x': 1}}, indent=1))
print(json.dumps({'full_step_s_median_after_2': 6.0}))
"""


def test_peers_and_ours_take_turns(tmp_path):
  (tmp_path / 'bench_tunix.py').write_text(SCRIPT)
  (tmp_path / 'bench_trl.py').write_text('raise SystemExit(3)')
  told, own = [], iter([(100.0, 2.0), (300.0, 3.0)])
  pythons = {'tunix': sys.executable, 'trl': sys.executable}
  out = peers.compare(str(tmp_path), pythons, lambda: next(own), 2, told.append)
  assert out.keys() == {'tunix'}
  assert sum('trl failed' in x for x in told) == 2
  assert 'round 1: decode 100 tokens/s, tunix 50' in told[0]
  assert out['tunix']['decode']['faster'] == dict(median=4.0, low=2.0, high=6.0)
  faster = out['tunix']['iteration']['faster']
  assert faster == dict(median=2.5, low=2.0, high=3.0)
  assert 'decode     4.00 times tunix [2.00, 6.00]' in peers.table(out)[0]


def test_json_is_found_between_other_lines():
  text = 'x\n{"a": 1}\n{not json}\n {"b": 2}\n{\n "c": {"d": 3}\n}\ntail'
  assert list(peers.objects(text)) == [{'a': 1}, {'c': {'d': 3}}]


def test_main_says_what_is_wrong_in_a_sentence():
  _parsed_flags()
  with (
    flagsaver.flagsaver(only=['sleep']),
    pytest.raises(ValueError, match='sleep'),
  ):
    bench.main()
