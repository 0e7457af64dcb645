"""A bank of texts against a list of entries in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.memory import texts
from agentrl.types import Batch, Status, Written
from tests import errors

C, W = 6, 3
TASKS = 8  # training tasks; of 9, so that one is held out


@jax.jit
def step_of(bank, batch, new, step):
  bank = texts.retired(texts.credited(bank, batch), 0.3, 2)
  return texts.applied(bank, new, step)


def operations(rng, entries, step, n=5):
  """Random ones: some on entries that were written anew since."""
  out = []
  for _ in range(n):
    entry = int(rng.integers(-3, C))
    seen = entries[entry]['written'] if entry >= 0 else -1
    out.append(
      dict(
        text=rng.integers(1, 3, rng.integers(0, W + 1)).tolist(),
        task=int(rng.integers(9)),
        entry=max(entry, -1),
        seen=seen - int(rng.random() < 0.2),
        reward=float(rng.integers(9)),
      )
    )
  return out


def arrays(operations):
  tokens = np.zeros((len(operations), W), np.int32)
  for row, x in zip(tokens, operations, strict=True):
    row[: len(x['text'])] = x['text']
  column = lambda f: jnp.array([f(x) for x in operations], jnp.int32)  # noqa: E731
  return Written(
    tokens=jnp.asarray(tokens),
    length=column(lambda x: len(x['text'])),
    task=column(lambda x: x['task']),
    entry=column(lambda x: x['entry']),
    seen=column(lambda x: x['seen']),
    reward=jnp.array([x['reward'] for x in operations], jnp.float32),
  )


def batch(read, outcome, status=None, source=None):
  """One turn for each trajectory; read: its (entry, step written)."""
  n = len(outcome)
  made = Batch.from_turns(
    [[[1]]] * n, [[[-1.0]]] * n, reward=[[0.0]] * n, group=list(range(n)),
    outcome=outcome,
  )  # fmt: skip
  ids = {
    'note0': jnp.array([x for x, _ in read], jnp.int32),
    'note_written0': jnp.array([x for _, x in read], jnp.int32),
    'source': jnp.array(source or [0] * n, jnp.int32),
  }
  status = jnp.array(status or [Status.FAILED] * n, jnp.int32)
  return made.replace(ids=made.ids | ids, status=status)


def score(x):
  return (x['decisive'] + 1) / (x['read'] + 2)


def reference(entries, seen, new, step):
  """The same in plain Python."""
  new = [x for x in new if x['task'] < TASKS]
  for (entry, written), solved, counts in seen:
    if counts and entry >= 0 and entries[entry]['written'] == written:
      entries[entry]['read'] += 1
      entries[entry]['decisive'] += solved
  for x in entries:
    if x['read'] >= 2 and score(x) < 0.3:
      x['text'] = []
  last = {}
  for x in new:
    if x['entry'] >= 0 and entries[x['entry']]['written'] == x['seen']:
      last[x['entry']] = x
  for entry, x in last.items():
    entries[entry] |= dict(text=x['text'], written=step)
  known = {tuple(x['text']) for x in entries if x['text']}
  order = sorted(
    (i for i in range(C)
     if not (entries[i]['text'] and entries[i]['written'] == step)),
    key=lambda i: (
      bool(entries[i]['text']), score(entries[i]), entries[i]['written'], i
    ),
  )  # fmt: skip
  for x in new:
    if x['entry'] < 0 and x['text'] and tuple(x['text']) not in known:
      known.add(tuple(x['text']))
      if order:
        entries[order.pop(0)] = dict(
          text=x['text'],
          task=x['task'],
          written=step,
          read=0,
          decisive=0,
          reward=x['reward'],
        )
  return entries


@pytest.mark.parametrize('seed', range(6))
def test_it_is_a_list_of_entries(seed):
  rng = np.random.default_rng(seed)
  entries = [
    dict(text=[], task=-1, written=-1, read=0, decisive=0, reward=0)
    for _ in range(C)
  ]
  bank, refused = texts.empty(C, W, TASKS), 0
  for step in range(12):
    new = operations(rng, entries, step)
    refused += sum(
      x['task'] >= TASKS and (x['entry'] >= 0 or x['text'] != []) for x in new
    )
    read = [(int(i), entries[i]['written']) for i in rng.integers(0, C, 4)]
    read[0] = (-1, -1)
    read[1] = (read[1][0], read[1][1] - 1)  # it is another one by now
    outcome = rng.integers(0, 2, 4).astype(float).tolist()
    status = [Status.FAILED] * 3 + [Status.ENV_ERROR]
    source = [0, 0, int(rng.integers(2)), 0]
    bank = step_of(
      bank, batch(read, outcome, status, source), arrays(new), jnp.int32(step)
    )
    counts = [not s and x != Status.ENV_ERROR
              for s, x in zip(source, status, strict=True)]  # fmt: skip
    seen = list(zip(read, outcome, counts, strict=True))
    entries = reference(entries, seen, new, step)
    got = jax.device_get(bank)
    for i, x in enumerate(entries):
      assert got.tokens[i, : got.length[i]].tolist() == x['text'], (step, i)
      assert got.written[i] == x['written']
      if x['text']:
        assert (got.read[i], got.decisive[i]) == (x['read'], x['decisive'])
        assert got.reward[i] == x['reward']
        assert got.task[i] == x['task'] or got.written[i] != step
  assert bank.refused == refused > 0


# What is written.

TURNS = [
  [[5, 6, 2], [7, 2]],  # solved, five tokens
  [[8, 2], [9, 2]],  # solved, four tokens: the shortest of group 0
  [[1, 2]],  # not solved
  [[3, 2], [4, 2]],  # group 1: solved, and of equal size with the next
  [[4, 2], [3, 2]],
  [[5, 2]],  # group 2: solved, but its environment broke
]
GROUP, OUTCOME = [0, 0, 0, 1, 1, 2], [1.0, 1.0, 0.0, 1.0, 0.6, 1.0]


def told(notes=()):
  """The trajectories above; turns of `notes` are notes."""
  made = Batch.from_turns(
    TURNS,
    [[[-1.0] * len(turn) for turn in turns] for turns in TURNS],
    reward=[[0.0] * len(turns) for turns in TURNS],
    group=GROUP,
    outcome=OUTCOME,
    context=[[[30 + k] for k in range(len(turns))] for turns in TURNS],
  )
  size = np.zeros((6, 2), np.float32)
  note = np.zeros((6, 2), np.float32)
  for b, turns in enumerate(TURNS):
    size[b, : len(turns)] = list(map(len, turns))
  for b, k in notes:
    note[b, k] = 1
  status = np.array([0] * 5 + [Status.ENV_ERROR], np.int32)
  ids = {'source': np.zeros(6, np.int32), 'task': np.arange(10, 16)}
  turns = made.turns.replace(terms={'tokens': size, 'note': note})
  made = made.replace(turns=turns, ids=made.ids | ids, status=status)
  return jax.tree.map(jnp.asarray, made)


def written(x):
  got = jax.device_get(x)
  assert np.all(got.entry == -1)
  return {
    int(task): tokens[:n].tolist()
    for task, tokens, n in zip(got.task, got.tokens, got.length, strict=True)
    if n
  }


def test_the_shortest_solution_of_every_group_is_written():
  want = {11: [8, 2, 9, 2], 13: [3, 2, 4, 2]}
  assert written(jax.jit(texts.solutions, static_argnums=1)(told(), 8)) == want


def test_solutions_of_low_return_are_not_written():
  """Of group 0 the shortest is one, and the next stands in its place."""
  made, reward = told(), np.zeros((6, 2), np.float32)
  reward[1] = -0.75
  reward[3:5, 1] = 0.5
  made = made.replace(turns=made.turns.replace(reward=jnp.asarray(reward)))
  assert written(texts.solutions(made, 8)) == {
    10: [5, 6, 2, 7, 2],
    13: [3, 2, 4, 2],
  }
  got = texts.solutions(made, 8, least=0.25)
  assert written(got) == {13: [3, 2, 4, 2]}
  assert got.reward.tolist() == [0, -1.5, 0, 0.5, 0.5, 0]


def test_texts_that_are_alike_are_merged():
  """The one that is there stays, with its counts."""

  def new(*texts):
    return arrays(
      [dict(text=x, task=5, entry=-1, seen=-1, reward=1) for x in texts]
    )

  apply = jax.jit(texts.applied, static_argnames='merge')
  bank = apply(texts.empty(C, W, 9), new([1, 2, 1], *[[]] * 3), 0, merge=0.8)
  bank = bank.replace(read=bank.read.at[0].set(3))
  # Cosines with [1, 2, 1] are 1, 0.34 and 0.29; of [3, 3, 1] and [3, 3] 0.85.
  more = new([1, 2, 1], [2, 2], [3, 3, 1], [3, 3])
  got = jax.device_get(apply(bank, more, 1, merge=0.8))
  live = [x[:n].tolist() for x, n in zip(got.tokens, got.length, strict=True)]
  assert live[:4] == [[1, 2, 1], [2, 2], [3, 3, 1], []]
  assert got.read[0] == 3
  got = apply(bank, more, 1)
  assert int(jnp.sum(got.length > 0)) == 4  # the same text alone


def test_what_is_longer_is_cut():
  assert written(texts.solutions(told(), 3)) == {11: [8, 2, 9], 13: [3, 2, 4]}


def test_the_newest_note_of_every_trajectory_is_written():
  made = told(notes=[(0, 0), (0, 1), (2, 0), (4, 0), (5, 0)])
  assert written(texts.notes(made, 8)) == {10: [7, 2], 12: [1, 2], 14: [4, 2]}


@pytest.mark.parametrize('write', ['solution', 'note'])
def test_trajectories_of_elsewhere_are_refused(write):
  """Those of a file or a buffer may be of held-out tasks."""
  made = told(notes=[(0, 0), (3, 0), (4, 0)])
  assert written(texts.WRITERS[write](made, 8))
  source = made.ids['source'].at[:].set(1)
  made = made.replace(ids=made.ids | {'source': source})
  assert not written(texts.WRITERS[write](made, 8))


@pytest.mark.parametrize('write', ['solution', 'note'])
def test_what_a_held_out_task_writes_is_refused(write):
  """Those have the numbers after the training tasks; evaluation is theirs."""
  hp = {'capacity': 8, 'tokens': 8, 'write': write}
  memory = registry.bind('memory', 'texts', hp)()
  made = told(notes=[(1, 0), (3, 0)])  # of tasks 10 to 15
  size = {'solution': 4, 'note': 2}[write]
  for tasks, held_out in ((14, 0), (12, 1), (10, 2)):
    bank = jax.jit(memory.write)(memory.init(made, tasks), made, None, 0)
    live = np.asarray(bank.length) > 0
    assert sorted(np.asarray(bank.task)[live]) == [11, 13][: 2 - held_out]
    assert set(np.asarray(bank.length)[live]) <= {size}
    assert memory.measure(bank)['texts/refused'][0] == held_out


def test_an_update_writes_and_the_bank_is_bounded():
  memory = registry.bind('memory', 'texts', {'capacity': 1, 'tokens': 4})()
  bank = memory.init(told(), 99)
  made = told()
  bank = jax.jit(memory.write)(bank, made, None, jnp.int32(3))
  assert np.asarray(bank.tokens).tolist() == [[8, 2, 9, 2]]
  assert np.asarray(bank.task).tolist() == [11]
  numbers = {k: float(x / n) for k, (x, n) in memory.measure(bank).items()}
  assert numbers['texts/entries'] == 1
  assert numbers['texts/score'] == 0.5


def test_under_a_decay_the_best_stays_where_few_solve():
  """By score a bad entry that is forgotten would be above the best."""
  away = 0.9**60  # the third was read by 100, none solved, long ago
  bank = texts.empty(4, W, 9).replace(
    length=jnp.ones(4, jnp.int32),
    tokens=jnp.arange(1, 13).reshape(4, W),
    written=jnp.arange(4),
    read=jnp.array([100, 100, 100 * away, 0]),
    decisive=jnp.array([20, 40, 0, 0.0]),
    earned=jnp.array([20, 40, 0, 0.0]),
  )
  assert np.argmin(texts.score(bank)[1:]) == 0
  hp = dict(write='service', service='x', first=('x',), tokens=W)

  def after(decay, *names):
    memory = registry.bind('memory', 'texts', hp | dict(decay=decay))()
    out, write = bank, jax.jit(memory.write)
    for step, name in enumerate(names, 10):
      x = batch([(-1, -1)], [0.0])
      new = dict(text=[name], task=0, entry=-1, seen=-1, reward=0)
      x = x.replace(written=arrays([new]))
      out = write(out, x, None, jnp.int32(step))
    return jax.device_get(out.written).tolist()

  assert after(0.9, 50) == [0, 1, 10, 3]
  # Then what was never read, the oldest of it first, and the best at last.
  assert after(0.9, 50, 51, 52) == [0, 1, 12, 11]
  assert after(1.0, 50) == [0, 10, 2, 3]


def test_an_entry_that_is_not_read_keeps_its_mean_and_not_its_worth():
  bank = texts.empty(2, W, 9).replace(
    length=jnp.ones(2, jnp.int32), written=jnp.zeros(2, jnp.int32),
    read=jnp.array([8.0, 8.0]), decisive=jnp.array([8.0, 0.0]),
    earned=jnp.array([8.0, 0.0]),
  )  # fmt: skip
  credit = jax.jit(texts.credited, static_argnums=2)
  for _ in range(40):  # the second is read by one, who fails
    bank = credit(bank, batch([(1, 0)], [0.0]), 0.9)
  n, other = 8 * 0.9**40, sum(0.9**i for i in range(40)) + 8 * 0.9**40
  every = n / (n + other)
  np.testing.assert_allclose(texts.mean(bank), [1, 0], atol=1e-6)
  np.testing.assert_allclose(texts.score(bank)[0], (n + 1) / (n + 2), rtol=1e-4)
  want = (n + 16 * every) / (n + 16)
  np.testing.assert_allclose(texts.worth(bank)[0], want, rtol=1e-4)
  assert want < 0.05


def test_notes_that_no_environment_marks_are_refused():
  x = told()
  x = x.replace(turns=x.turns.replace(terms={'tokens': x.turns.valid * 1.0}))
  memory = registry.bind('memory', 'texts', {'write': 'note'})()
  with errors.raises(ValueError, 'hp.memory.texts.write note'):
    memory.init(x, 99)
