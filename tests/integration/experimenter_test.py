"""A curriculum that a service builds: what it does, and after a cut."""

import pytest

from agentrl.configs import rl_experimenter
from agentrl.log import metrics, trajectories
from agentrl.run import build, runner
from tests.integration import judged_methods_test
from tests.integration.cut import after_row
from tests.integration.same import SLOTS, assert_same_run, rows


def small(arg, folder):
  c = judged_methods_test.small(rl_experimenter.get_config(arg), folder)
  c.env.train = 200
  return c


@pytest.mark.slow
def test_two_updates_on_proposed_skills_and_on_all(tmp_path):
  """Taken out, tasks of three rooms are attempted at once."""
  sizes = {}
  for name in ('', 'fixed', 'difficulty_band'):
    c = small(f'tiny,tasks={name}' if name else 'tiny', tmp_path)
    c.log.groups = -1
    folder = tmp_path / (name or 'own')
    rl = judged_methods_test.updates(c, folder)
    assert ('skills/library' in rl[-1]) == (not name)
    s = build.experiment(c)
    log = [x for x in trajectories.Log(str(folder)) if x['phase'] == 'rl']
    sizes[name] = {len(s.train.tasks[x['task']]['door']) for x in log}
    held_out = [x for x in metrics.read(str(folder / 'metrics.jsonl'))
                if x['phase'] == 'eval']  # fmt: skip
    assert held_out[-1]['eval/episodes'] == 4
  assert sizes[''] == {1}
  assert 3 in sizes['fixed'] & sizes['difficulty_band']


@pytest.mark.nightly
def test_a_run_that_is_cut_goes_on_with_its_curriculum(tmp_path):
  c = small('tiny', tmp_path)
  c.steps, c.checkpoint.every, c.micro_batch, c.sft.batch = 5, 2, 8, 8
  c.loss = (*c.loss, 'entropy')  # moves it even if nothing is solved
  c.stage.form.steps, c.sft.lr = 20, 0.05  # after which it says digits
  # So low that skills come into the library, and others after them.
  c.hp.task.proposed_skills.update(dict(level=0.0, tolerance=1.0))
  c.hp.memory.skills.window = 2
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(c, whole)
  with after_row(24):
    runner.run(c, cut)
  assert rows(cut)[-1]['step'] == 24
  runner.run(c, cut)
  slots = *SLOTS, 'eval/engine/', 'eval/host/'
  assert_same_run(whole, cut, steps=25, but=slots)
  rl = [x for x in rows(whole) if x['phase'] == 'rl']
  library = [x['skills/library'] for x in rl]
  assert library == sorted(library)
  assert library[-1] > 0
  assert max(x['skills/success'] for x in rl) > 0
  assert rl[-1]['skills/asked'] == 3
