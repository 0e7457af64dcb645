"""Methods whose policy or teacher reads skills: what is read, and by whom.

A scripted policy is right in half of its attempts.
"""

import contextlib
import re

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl.configs import inspo, skill_sd, slea_rl
from agentrl.env.worlds.door_codes import DoorCodes
from tests.integration import half_good, judged_methods_test, parts_test

# The notes that are true.
RIGHT = {
  f'{door}{code}'
  for door, code in zip('abc', DoorCodes().lasting(), strict=True)
}


def wrong(code):
  return str(int(code) % 3 + 1)


def half_right(demo):
  """The solution, and what is wrong at the last door."""
  return [demo, [*demo[:-1], wrong(demo[-1])]]


def steps_of(module, folder, count=2, **changes):
  """Batches of so many steps, what updates say of them, the bank, the words."""
  c = judged_methods_test.small(module.get_config('tiny'), folder)
  c.stages, c.stage = ('rl',), ConfigDict()
  with c.ignore_type():
    c.update_from_flattened_dict(changes)
  out = []
  with contextlib.ExitStack() as stack:
    made = parts_test.Method(c, None, stack)
    for batch, told, state in made.updates(count):
      out.append((batch, told))
      bank = jax.device_get(state.memory['texts'])
  return out, bank, made.s


def texts_of(rows, words):
  """What each row says that says anything."""
  used = np.asarray(rows.seg) >= 0
  every = zip(np.asarray(rows.tokens), used, strict=True)
  return [words.decode(x[y].tolist()) for x, y in every if y.any()]


def entries(bank, words):
  return [
    words.decode(x[:n].tolist())
    for x, n in zip(bank.tokens, bank.length, strict=True)
  ]


@pytest.mark.slow
def test_a_teacher_reads_skills_of_training_tasks(tmp_path, monkeypatch):
  """The policy reads none, and is pulled where the teacher has one."""
  half_good.plays(monkeypatch, half_right)
  (first, later), bank, s = steps_of(skill_sd, tmp_path)
  words, kl = s.tokenizer, 'loss/kl_k3_weighted'
  known = entries(bank, words)
  assert {*known} - {''} <= RIGHT
  live = bank.length > 0
  assert live.any()
  assert (bank.task[live] < len(s.train)).all()
  reads = np.asarray(later[0].ids['note0']) >= 0
  earned = np.asarray(later[0].turns.reward).sum(1)[reads]
  assert (bank.read.sum(), bank.earned.sum()) == (reads.sum(), earned.sum())
  assert first[1][kl][0] == 0  # the bank was empty
  assert later[1][kl][0] / later[1][kl][1] > 1e-4
  batch = later[0]
  own = texts_of(batch.rows, words)
  read = texts_of(batch.readings['hinted'], words)
  noted = 0
  for b, (plain, text) in enumerate(zip(own, read, strict=True)):
    entry = int(batch.ids['note0'][b])
    door = s.world.tasks[int(batch.ids['task'][b])]['door']
    if entry < 0:
      assert text == plain
      continue
    noted += 1
    assert known[entry][0] == door
    assert text == f'Notes:\n{known[entry]}\n{plain}'
    assert 'Notes' not in plain
  assert noted


@pytest.mark.slow
@pytest.mark.nightly
def test_an_empty_skill_pulls_nothing_and_another_is_read(
  tmp_path, monkeypatch
):
  half_good.plays(monkeypatch, half_right)
  out, bank, s = steps_of(skill_sd, tmp_path, **{'hp.recall.ucb.arm': 'empty'})
  assert (bank.length > 0).any()
  for batch, told in out:
    assert told['loss/kl_k3_weighted'][0] == 0
    rows = batch.rows, batch.readings['hinted']
    one, other = (texts_of(x, s.tokenizer) for x in rows)
    assert one == other
  arm = {'hp.recall.ucb.arm': 'shuffled', 'hp.recall.ucb.least': -1.0}
  (_, (batch, _)), bank, s = steps_of(skill_sd, tmp_path, **arm)
  arm['hp.recall.ucb.arm'] = 'own'
  (_, (own, _)), _, _ = steps_of(skill_sd, tmp_path, **arm)
  if (bank.written == 0).sum() > 1:
    assert not np.any(batch.ids['note0'] == own.ids['note0'])


@pytest.mark.slow
def test_every_turn_reads_of_what_it_observes(tmp_path, monkeypatch):
  """And once per episode, of the first observation alone."""
  half_good.plays(monkeypatch, half_right)
  out, bank, s = steps_of(slea_rl, tmp_path, 3)
  words, batch = s.tokenizer, out[-1][0]
  assert {*entries(bank, words)} - {''} == RIGHT
  later = np.asarray(batch.turns.valid)[:, 1:]
  assert later.any()
  assert (batch.turns.terms['note0'][:, 1:][later] >= 0).all()
  for text in texts_of(batch.rows, words):
    _, note, asked, *_ = text.split('\n')
    assert note in RIGHT
    assert note[0] == asked[0]
  every = {'hp.recall.observed.every': 'episode'}
  out, _, s = steps_of(slea_rl, tmp_path, 3, **every)
  texts = texts_of(out[-1][0].rows, words)
  same = [x.split('\n')[1][0] == x.split('\n')[2][0] for x in texts]
  assert 0.3 < np.mean(same) < 0.9


@pytest.mark.slow
def test_groups_read_one_instruction_and_new_ones_come_in_time(
  tmp_path, monkeypatch
):
  half_good.plays(monkeypatch, half_right)
  when = {'hp.memory.texts.every': 2, 'hp.recall.rewarded.temperature': 10.0}
  out, bank, s = steps_of(inspo, tmp_path, 5, **when)
  words, first = s.tokenizer, 'a1\nb1\nc1'
  known, written = entries(bank, words), bank.written[bank.length > 0]
  assert known[0] == first
  assert written.tolist() == [0, 2, 4]
  for text in known[1:3]:
    assert re.fullmatch('a[1-3]\nb[1-3]\nc[1-3]', text)
    assert sum(x != y for x, y in zip(text, known[0], strict=True)) in (1, 2)
  assert (np.asarray(out[0][0].ids['note0']) == -1).all()
  seen = set()
  for batch, _ in out[1:]:
    entry, group = (np.asarray(batch.ids[x]) for x in ('note0', 'group'))
    for b, text in enumerate(texts_of(batch.rows, words)):
      assert text.startswith(f'Notes:\n{known[entry[b]]}\n')
    for g in np.unique(group):
      assert len(np.unique(entry[group == g])) == 1
    seen |= {*entry.tolist()}
  assert seen == {0, 1} | seen
  read = sum(0.9 ** (4 - i) * np.sum(x.ids['note0'] == 0)
             for i, (x, _) in enumerate(out))  # fmt: skip
  np.testing.assert_allclose(bank.read[0], read, rtol=1e-5)
