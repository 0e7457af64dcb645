"""Plans of quick comparisons: fair, resumable, checked before anything runs."""

import json

import pytest

from agentrl.lab.study import quick
from agentrl.lab.sweep import local, runs
from tests import errors


def plan(tmp_path, methods=('grpo', 'gigpo'), seeds=2, **changes):
  changes = {k.replace('__', '.'): v for k, v in changes.items()}
  return quick.plan(methods, 'tiny', changes, seeds, str(tmp_path))


def test_methods_share_seeds_and_warm_starts(tmp_path):
  warm, wanted = plan(tmp_path)
  assert [r.name for r in warm] == ['warm/0', 'warm/1']
  names = ['grpo/0', 'gigpo/0', 'grpo/1', 'gigpo/1']
  assert [r.name for r in wanted] == names
  for r in wanted:
    assert r.config.init == str(tmp_path / 'warm' / str(r.config.seed))
    assert r.config.eval.every == r.config.steps // 6
  assert [(r.config.steps, r.config.seed) for r in warm] == [(0, 0), (0, 1)]


def test_another_rollout_has_a_warm_start_of_its_own(tmp_path):
  _, (ours, other) = plan(tmp_path, ('grpo', 'infopo'), 1)
  assert ours.config.rollout != other.config.rollout
  assert ours.config.init
  assert not other.config.init
  warm, wanted = plan(tmp_path, sft__steps=0)
  assert not warm
  assert not any(r.config.init for r in wanted)


def test_what_is_asked_for_stays(tmp_path):
  _, wanted = plan(tmp_path, eval__every=5, steps=10)
  assert {(r.config.eval.every, r.config.steps) for r in wanted} == {(5, 10)}


@pytest.mark.parametrize(
  ('methods', 'changes', 'told'),
  [
    (('grpo',), {}, 'grpo'),
    (('grpo', 'configs/grpo.py'), {}, 'grpo'),
    (('grpo:tiny', 'gigpo'), {}, '--arg tiny'),
    (('grpo', 'gigpo'), {'seed': 3}, '--set seed'),
    (('grpo', 'gigpo'), {'stps': 3}, 'config.stps'),
    (('grpo', 'no_such'), {}, 'no_such'),
    (('grpo', 'lumina'), {}, 'env.coordinates'),
    (('grpo', 'faft'), {}, 'env.name'),
  ],
)
def test_mistakes_are_one_sentence(tmp_path, methods, changes, told):
  with errors.raises(ValueError, told) as error:
    plan(tmp_path, methods, **changes)
  assert '\n' not in str(error.value)
  assert not list(tmp_path.iterdir())


def test_runs_wait_for_their_warm_start_and_are_not_repeated(
  tmp_path, monkeypatch
):
  """Seed 1 has none, so that its runs are missing; the rest ran once."""
  started = []

  def pool(jobs, places, look):
    for job in jobs:
      started.append(job.name)
      if job.name != 'warm/1':
        folder = tmp_path / job.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / runs.DONE).write_text('')
    statuses = {job.name: int(job.name == 'warm/1') for job in jobs}
    look([], statuses)
    return statuses

  monkeypatch.setattr(local, 'run', pool)
  planned = plan(tmp_path)
  done, missing = quick.train(*planned, places=1, together=1)
  assert done == [str(tmp_path / x / '0') for x in ('grpo', 'gigpo')]
  assert missing == ['grpo/1', 'gigpo/1']
  assert started == ['warm/0', 'warm/1', 'grpo/0', 'gigpo/0']
  quick.train(*planned, places=1, together=1)
  assert started[4:] == ['warm/1']


def test_the_report_of_a_study_is_not_overwritten(tmp_path):
  quick.check_folder(str(tmp_path))
  (tmp_path / 'report.json').write_text(json.dumps({'exploratory': 'x'}))
  quick.check_folder(str(tmp_path))
  (tmp_path / 'report.json').write_text(json.dumps({'format': 1}))
  with pytest.raises(ValueError):
    quick.check_folder(str(tmp_path))
