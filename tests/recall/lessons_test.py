"""A list of lessons raises what reads it, and parameters have no part in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.env.worlds import door_codes
from agentrl.env.worlds.door_codes import DoorCodes
from agentrl.memory import texts
from agentrl.recall import base, operations
from agentrl.task.base import make_attempts
from agentrl.text import tokenizer
from agentrl.text.message import Message

WORDS = tokenizer.Embedded()
FAMILY, GROUP = DoorCodes(doors=4, codes=4), 8
TASKS = [x.task for x in FAMILY.tasks('train', 60, 0)]
APPLIED = jax.jit(texts.applied)


def attempted(read, rng):
  """A group at each of four tasks by a policy that follows notes, or guesses.

  Args:
    read: text that is read before each task
  """
  out = []
  for i in rng.permutation(len(TASKS))[:4]:
    task, tried = TASKS[i], []
    seen = read + door_codes.observation(task)
    told = dict(line for line in seen.split('\n') if len(line) == 2)
    for _ in range(GROUP):
      said = told.get(task['door'], str(rng.integers(1, FAMILY.codes + 1)))
      env = FAMILY.env()
      env.reset(task, 0)
      text = f'[user] {seen}\n\n[assistant] {said}'
      tried.append((text, env.step(said).score > 0.5))
    out.append((int(i), tried))
  return out


def text_read(bank):
  whole = registry.bind('recall', 'whole', {'k': 8})
  none = np.zeros((1, 0), np.float32)
  chosen = whole(base.RecallInputs(bank, np.zeros(1, int), none, 0, 0))
  one = make_attempts(np.array([0]), 1, 2, 1.0)
  recall = base.Recall(k=8, tokens=32, heading=door_codes.HEADING)
  notes = base.noted(one, chosen, bank, recall, WORDS).notes
  return base.text_of(notes, 0, WORDS, 99)


def success(writer, reads=True, steps=10):
  """The share solved in each step, and the text that is read in the end."""
  rng, out = np.random.default_rng(1), []
  bank = jax.device_get(texts.empty(8, 4, len(TASKS)))
  for step in range(steps):
    made = []
    groups = attempted(text_read(bank) if reads else '', rng)
    out.append(np.mean([solved for _, tried in groups for _, solved in tried]))
    for task, tried in groups:
      if len({solved for _, solved in tried}) < 2:
        continue
      known = operations.shown(bank, WORDS, 8, [])
      asked = operations.question('Compare.', known, tried)
      answer = writer([Message('user', asked)], seed=0)
      got, refused = operations.parsed(answer, known)
      assert not refused
      made.append((task, got))
    made += [(0, [])] * (4 - len(made))
    new = operations.written(made, bank, WORDS, 2)
    new = jax.tree.map(jnp.asarray, new)
    bank = jax.device_get(APPLIED(bank, new, jnp.int32(step)))
  return out, text_read(bank)


def test_a_follower_of_true_lessons_opens_every_door():
  solved, text = success(door_codes.lesson)
  assert solved[0] < 0.5
  assert min(solved[-4:]) == 1
  heading, *notes, end = text.split('\n')
  assert (heading, end) == (door_codes.HEADING, '')
  codes = FAMILY.lasting()
  assert sorted(notes) == [door_codes.note(i, x) for i, x in enumerate(codes)]


@pytest.mark.parametrize(
  ('writer', 'reads'),
  [(door_codes.lesson, False), (door_codes.shuffled_lesson, True)],
)
def test_nothing_is_gained_without_them(writer, reads):
  """By notes that are not read, or are of the door beside."""
  solved, _ = success(writer, reads)
  assert np.mean(solved[2:]) < 0.4
