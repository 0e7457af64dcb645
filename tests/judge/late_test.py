"""Late judges: no batch waits for its own scores, and none of them is lost."""

import threading

import numpy as np
import pytest

from agentrl.configs import base, oni
from agentrl.judge import late
from agentrl.judge.item import JudgeFault
from agentrl.judge.panel import Judge, JudgePanel, Settings
from agentrl.judge.workers import Workers
from tests import errors
from tests.judge.panel_test import item

LAG = 2


class Annotator:
  """Judges a turn by its last letter, once the gate is open."""

  def __init__(self, unit='turn', fault=''):
    self.gate, self.asked = threading.Event(), []
    self._unit, self._fault = unit, fault

  def score(self, x):
    self.asked.append(x.item.here.message)
    assert self.gate.wait(20)
    if x.item.here.message == self._fault:
      raise JudgeFault('no')
    if self._unit == 'group':
      return [len(one.turns) / 10 for one in x.items]
    return int(x.item.here.message[-1]) / 10

  def panel(self, **settings):
    limits = Settings(**dict(threads=4, seconds=30.0) | settings)
    workers = Workers(limits.threads, limits.seconds)
    judge = Judge('number', self.score, 'judged', self._unit)
    return lambda: JudgePanel([judge], limits, workers=workers)


def play(late_panel, step, lines=2):
  """Judges a batch of a step; returns its verdicts."""
  late_panel.begin(step)
  items = [item(f'{step} {b}', turns=1 + b) for b in range(lines)]
  for b, one in enumerate(items):
    late_panel.submit(b, one)
  late_panel.submit_group(range(lines), items)
  return late_panel.verdicts()


def said(verdicts):
  """Turn and score by line."""
  return {b: [(x.turn, x.score) for x in of] for b, of in verdicts.items()}


EVERY = {0: [(0, 0.0)], 1: [(0, 0.0), (1, 0.1)]}


def test_no_batch_waits_and_scores_come_lag_steps_later():
  """The annotator says nothing until two batches have been handed on."""
  one = Annotator()
  panel = late.LatePanel(one.panel(), LAG)
  assert play(panel, 0) == play(panel, 1) == {}
  assert not one.gate.is_set()
  assert panel.taken()['judge/number/items'] == 0
  one.gate.set()
  verdicts = play(panel, 2, lines=3)  # of another form than the batch of step 0
  assert said(verdicts) == EVERY
  assert panel.taken()['judge/number/items'] == 3
  assert said(play(panel, 3)) == EVERY
  assert said(play(panel, 4))[2] == [(0, 0.0), (1, 0.1), (2, 0.2)]


def test_a_budget_is_spent_at_once_and_not_when_scores_are_due():
  one = Annotator()
  panel = late.LatePanel(one.panel(budget=1), LAG)
  one.gate.set()
  play(panel, 0)
  for _ in range(2000):
    if one.asked:
      break
    threading.Event().wait(0.005)
  assert len(one.asked) == 1
  play(panel, 1)
  verdicts = play(panel, 2)
  scored = [x for of in verdicts.values() for x in of if not x.fault]
  assert len(scored) == 1
  assert sum(map(len, verdicts.values())) == 3
  assert panel.taken()['judge/number/over_budget'] == 2


@pytest.mark.parametrize('unit', ['turn', 'group'])
def test_a_run_that_was_killed_asks_again(tmp_path, unit):
  whole, cut = Annotator(unit), Annotator(unit)
  folder = str(tmp_path / 'late')
  one = late.LatePanel(whole.panel(), LAG)
  whole.gate.set()
  want = [said(play(one, step)) for step in range(5)]
  killed = late.LatePanel(cut.panel(), LAG, folder, keep=2)
  for step in range(3):
    if step == LAG:
      cut.gate.set()
    assert said(play(killed, step)) == want[step]
  # Of a checkpoint of step 2: this batch is judged once more.
  again = late.LatePanel(cut.panel(), LAG, folder, keep=2)
  assert [said(play(again, step)) for step in (2, 3, 4)] == want[2:]
  assert any(want[2:])


@pytest.mark.parametrize('budget', [0, 2])
def test_what_was_under_way_is_asked_before_the_new_batch(tmp_path, budget):
  """Results are waited for in the order of submission."""
  cut, again = Annotator(), Annotator()
  killed = late.LatePanel(cut.panel(), LAG, str(tmp_path), keep=2)
  play(killed, 0)
  play(killed, 1)
  cut.gate.set()
  again.gate.set()
  panel = late.LatePanel(
    again.panel(threads=1, budget=budget), LAG, str(tmp_path), keep=2
  )
  for step in (2, 3, 4):
    assert play(panel, step)
  steps = [int(x[0]) for x in again.asked]
  assert steps == sorted(steps)
  assert {0, 1, 2} <= set(steps)


def test_hanging_judges_do_not_hold_up_a_run_that_goes_on(tmp_path):
  cut = Annotator()
  killed = late.LatePanel(cut.panel(), LAG, str(tmp_path), keep=2)
  play(killed, 0)
  play(killed, 1)
  again = late.LatePanel(
    cut.panel(threads=1, seconds=0.05), LAG, str(tmp_path), keep=2
  )
  for step in (2, 3):
    verdicts = play(again, step)
    assert verdicts
    assert all(x.fault for of in verdicts.values() for x in of)
  cut.gate.set()


def test_a_damaged_file_is_refused(tmp_path):
  one = Annotator()
  panel = late.LatePanel(one.panel(), LAG, str(tmp_path))
  (tmp_path / '1.pickle').write_bytes(b'cut')
  with errors.raises(ValueError, '1.pickle remove'):
    play(panel, 1 + LAG)


def test_what_no_checkpoint_goes_back_to_is_removed(tmp_path):
  one = Annotator()
  one.gate.set()
  panel = late.LatePanel(one.panel(), LAG, str(tmp_path), keep=3)
  for step in range(10):
    play(panel, step)
  left = sorted(int(x.stem) for x in tmp_path.iterdir())
  assert left == list(range(9 - LAG - 3, 10))


def test_a_batch_that_judges_were_not_asked_about_has_no_verdicts():
  one = Annotator()
  one.gate.set()
  panel = late.LatePanel(one.panel(), LAG)
  play(panel, 0)
  panel.submit(0, item())  # an evaluation
  assert panel.verdicts() == {}
  assert not play(panel, 1)
  assert said(play(panel, 2)) == EVERY


def test_faults_are_unknown_and_trajectories_are_judged_at_their_end():
  one = Annotator('trajectory', fault='0 0 writes 0')
  one.gate.set()
  panel = late.LatePanel(one.panel(), 1)
  play(panel, 0)
  verdicts = play(panel, 1)
  got = late.columns((3, 4), ('judged',), verdicts)
  score, known = np.zeros((3, 4)), np.zeros((3, 4))
  score[1, 1], known[1, 1] = 0.1, 1  # line 0 is the fault
  np.testing.assert_allclose(got['judged'], score, rtol=1e-6)
  np.testing.assert_array_equal(got['judged_known'], known)


def test_the_lag_is_that_of_the_component_that_needs_late_scores():
  c = oni.get_config('tiny')
  assert late.lags(base.wiring(c)) == {'judged': 2}
  c.hp.memory.annotations.lag = 7
  assert late.lags(base.wiring(c)) == {'judged': 7}
  c.memory = ()
  assert not late.lags(base.wiring(c))
