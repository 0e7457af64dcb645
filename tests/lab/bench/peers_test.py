"""Other libraries are measured in turns with ours, or left out with a word."""

import sys

import pytest

from agentrl.lab.bench import peers, sampling


def test_peers_are_skipped_with_a_sentence(tmp_path):
  told = []
  pythons = {'tunix': '', 'trl': str(tmp_path / 'python')}
  out = peers.compare(
    str(tmp_path),
    pythons,
    lambda: pytest.fail('not needed'),
    2,
    sizes={},
    tell=told.append,
  )
  assert out == {}
  assert '--torch_python is not given' in told[0]
  assert '--tunix_python is not given' in told[1]
  assert f'--trl_python={tmp_path}/python does not exist' in told[2]
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
  out = peers.compare(
    str(tmp_path),
    pythons,
    lambda: dict(zip(('decode', 'iteration'), next(own), strict=True)),
    2,
    sizes={},
    tell=told.append,
  )
  assert out.keys() == {'tunix'}
  assert sum('trl failed' in x for x in told) == 2
  assert any('round 1: decode 100 tokens/s, tunix 50' in x for x in told)
  assert out['tunix']['decode']['faster'] == dict(median=4.0, low=2.0, high=6.0)
  faster = out['tunix']['iteration']['faster']
  assert faster == dict(median=2.5, low=2.0, high=3.0)
  assert 'decode         4.00 times tunix [2.00, 6.00]' in peers.table(out)[0]


def test_json_is_found_between_other_lines():
  text = 'x\n{"a": 1}\n{not json}\n {"b": 2}\n{\n "c": {"d": 3}\n}\ntail'
  assert list(peers.objects(text)) == [{'a': 1}, {'c': {'d': 3}}]


def test_our_script_is_given_the_size(tmp_path, monkeypatch):
  echo = tmp_path / 'torch_peer.py'
  echo.write_text(
    'import json, sys\n'
    "flags = dict(x.lstrip('-').split('=') for x in sys.argv[1:])\n"
    "print(json.dumps({'gradient': 2 * float(flags['rows'])}))\n"
  )
  monkeypatch.setattr(peers, 'OWN', echo)
  ours = {'gradient': 4.0, 'decode': 1.0}
  sizes = sampling.flags(sampling.TINY)
  out = peers.compare(
    '', {'torch': sys.executable}, lambda: ours, 1, sizes=sizes, tell=str
  )
  assert out['torch'].keys() == {'gradient'}
  assert out['torch']['gradient']['faster']['median'] == 2.0


@pytest.mark.nightly
def test_our_script_measures_every_figure():
  pytest.importorskip('torch')
  sizes = sampling.flags(sampling.TINY) | {'repeats': 1}
  flags = [f'--{name}={n}' for name, n in sizes.items()]
  out = peers.run([sys.executable, str(peers.OWN), *flags])
  assert {'decode', 'gradient'} <= out.keys() <= {*peers.PEERS['torch'].figures}
  assert all(x > 0 for x in out.values())
