"""The viewer's lists, its server and its file, without a browser."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from agentrl.log import trajectories
from agentrl.report.trajectories import page as trajectories_page
from tests import errors
from tests.report import made_up_log


@pytest.mark.parametrize(
  ('words', 'found'),
  [
    ({}, [5, 6, 7, 8, 9, 4, 0, 1, 2, 3]),
    ({'order': 'oldest', 'phase': ''}, list(range(10))),
    ({'order': 'best', 'to': '1'}, [1, 0, 2, 3]),
    ({'order': 'worst', 'to': '1'}, [3, 0, 2, 1]),
    ({'phase': 'eval'}, [9]),
    ({'task': '3', 'outcome': 'solved'}, [5, 7, 0, 2]),
    ({'status': 'turn_limit', 'from': '5'}, [6, 8, 4]),
    ({'group': '7'}, [4]),
    ({'task': '-1'}, []),
  ],
)
def test_filters(folder, words, found):
  log = trajectories.Log(folder)
  asked = trajectories_page.query(words)
  assert trajectories_page.matching(log.heads, asked).tolist() == found
  page = trajectories_page.listed(log, asked)
  assert [row['i'] for row in page['rows']] == found
  assert (page['found'], page['total']) == (len(found), 10)


def test_pages_of_a_list(tmp_path):
  w = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  for step in range(250):
    w.write(next(made_up_log.group(step)))
  w.close()
  log, seen = trajectories.Log(tmp_path), []
  for page in range(4):
    found = trajectories_page.listed(log, {'page': page, 'order': 'oldest'})
    seen.append([row['step'] for row in found['rows']])
  assert [len(x) for x in seen] == [100, 100, 50, 0]
  assert [x for page in seen for x in page] == list(range(250))


def test_an_empty_log_is_a_list(tmp_path):
  trajectories.TrajectoryWriter(tmp_path, resume_after=None).close()
  assert trajectories_page.listed(trajectories.Log(tmp_path), {})['rows'] == []


def test_a_hundred_thousand_are_quick(tmp_path):
  """The work for one page does not grow with their number; ratio, not time."""
  w = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  few = list(made_up_log.group(1))
  for t in few:
    w.write(t)
  w.close()
  log = trajectories.Log(tmp_path)
  many = np.tile(log.heads, 25_000)
  many['step'] = np.arange(len(many))
  log.heads = many
  found = trajectories_page.listed(
    log, trajectories_page.query({'outcome': 'solved'})
  )
  assert found['found'] == 50_000
  assert len(found['rows']) == trajectories_page.PAGE
  assert found['rows'][0]['step'] == 99_998
  assert len(json.dumps(found)) < 30_000


def test_the_page_never_makes_markup_of_a_string():
  """Every way there is to do so, in the only script that runs."""
  script = (trajectories_page._PARTS / 'page.js').read_text(encoding='utf-8')
  for way in (
    'innerHTML',
    'outerHTML',
    'insertAdjacent',
    'document.write',
    'eval(',
    'Function(',
    'DOMParser',
    'srcdoc',
  ):
    assert way not in script


def test_a_file_holds_what_was_chosen(folder, tmp_path):
  out = tmp_path / 'x.html'
  log = trajectories.Log(folder)
  asked = trajectories_page.query({'from': '5', 'phase': 'rl'})
  assert trajectories_page.save(log, 'run', str(out), asked, 3) == 3
  text = out.read_text(encoding='utf-8')
  data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1)
  data = json.loads(data)
  assert [row['i'] for row in data['rows']] == [5, 6, 7]
  assert data['some'][0] == {'i': 5, **log[5]}
  assert 'http-equiv="Content-Security-Policy"' in text
  assert 'connect-src' not in text
  with errors.raises(ValueError, 'run'):
    trajectories_page.save(log, 'run', str(out), {'task': 99}, 3)


def test_hostile_text_cannot_leave_the_data(folder, tmp_path):
  out = tmp_path / 'x.html'
  trajectories_page.save(
    trajectories.Log(folder), 'run', str(out), {'group': 7}, 9
  )
  text = out.read_text(encoding='utf-8')
  assert '<img' not in text
  assert '<b' not in text.replace('<body', '')
  assert text.count('</script>') == 3  # spans, data, script
  assert '@STYLE@' in text  # of the observation: it is not filled in


def test_a_damaged_trajectory_is_told_and_the_others_are_shown(tmp_path):
  made_up_log.write(tmp_path)
  log = trajectories.Log(tmp_path)
  path = tmp_path / trajectories.FOLDER / '00000-00000.jsonl'
  data = bytearray(path.read_bytes())
  data[int(log.heads['at'][2]) + 5] ^= 1
  path.write_bytes(data)
  found = json.loads(
    trajectories_page.some(trajectories.Log(tmp_path), [1, 2, 3])
  )
  assert ['error' in t for t in found] == [False, True, False]


@pytest.mark.nightly
def test_the_command_says_what_it_lacks(tmp_path, folder):
  def run(*words):
    command = [sys.executable, '-m', 'experiments.view', *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return ran.returncode, ran.stdout + ran.stderr

  out = tmp_path / 'x.html'
  assert run(folder, f'--out={out}', '--only=phase=eval,to=9') == (
    0,
    f'1 of 10 trajectories are in {out}\n',
  )
  for words, match in {
    (): 'error: RUN is missing',
    (tmp_path,): 'error: .* must be the --workdir of a started run',
    (folder, 'x'): "error: 'x' is not a flag",
    (folder, f'--out={out}', '--only=x=1'): 'error: filter x must be',
    (folder, '--port=99999'): 'error: --port=99999 is too high',
  }.items():
    code, text = run(*words)
    assert code == 2
    assert re.search(match, text), text
