"""Parts of a benchmark: what ended is not measured again."""

import json

import pytest

from agentrl.lab.bench import parts

TINY = {
  'one': ('--only=attention', '--size=tiny', '--repeats=1'),
  'wrong': ('--only=nothing',),
  'slow': ('--only=decode', '--size=1.5B'),
}


@pytest.mark.nightly
def test_each_part_is_measured_once(tmp_path):
  lines = []
  two = {name: TINY[name] for name in ('one', 'wrong')}
  assert parts.run(str(tmp_path), 120, two, lines.append) == ['wrong']
  done = tmp_path / 'one.json'
  figures = json.loads(done.read_text())['figures']
  assert {x['name'] for x in figures} == {'attention_chunked', 'attention_xla'}
  assert any('wrong ended with 2' in x for x in lines)

  done.write_text(done.read_text().replace('attention_xla', 'mine'))
  assert parts.run(str(tmp_path), 120, {'one': TINY['one']}, lines.append) == []
  table = list(parts.table(str(tmp_path), TINY))
  assert len(table) == 4
  assert table[3].startswith('| one | mine |')


def test_a_part_that_takes_too_long_is_left(tmp_path):
  lines = []
  slow = {'slow': TINY['slow']}
  assert parts.run(str(tmp_path), 0.2, slow, lines.append) == ['slow']
  assert not list(tmp_path.glob('*.json'))
  assert 'no figures after' in lines[-1]
