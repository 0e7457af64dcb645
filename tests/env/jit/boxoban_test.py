"""Level files: reading, padding, splits and their errors."""

import logging
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import base, boxoban, sokoban_levels, sokoban_solver
from tests import errors
from tests.env.jit import tasks as jit_tasks
from tests.env.jit.levels import as_text

PUBLIC = pathlib.Path(__file__).parents[4] / 'shared' / 'data' / 'boxoban'


def write(folder, texts, name='levels.txt'):
  """A file of level texts under headers '; 0', '; 1', ..."""
  file = folder / name
  blocks = [f'; {n}\n{text}\n' for n, text in enumerate(texts)]
  file.write_text('\n'.join(blocks))
  return str(file)


def generated_texts(source, count):
  """Texts of generated levels, and their levels."""
  shape = source.height, source.width
  levels = []
  for solved in source.tasks('train', count, 0):
    names = ('walls', 'targets', 'boxes')
    masks = [solved.task[name].reshape(shape) for name in names]
    level = sokoban_solver.SolverLevel(*masks, int(solved.task['player']))
    levels.append(level)
  return [as_text(level) for level in levels], levels


def everything(source, seed=0):
  return [
    solved
    for split, size in source.sizes().items()
    for solved in source.tasks(split, size, seed)
  ]


def test_round_trip(tmp_path):
  generator = sokoban_levels.Generated(8, 7, 2, min_moves=4, max_moves=20)
  texts, levels = generated_texts(generator, 30)
  source = boxoban.Boxoban(write(tmp_path, texts), max_nodes=5000)
  assert source.shape() == (8, 7, 2)
  read = {solved.key: solved for solved in everything(source)}
  assert len(read) == 30
  env = sokoban_levels.env_for(source)
  step = jax.jit(env.step)
  for level in levels:
    solved = read[sokoban_levels.level_key(level)]
    want = sokoban_levels.level_task(level, None)
    assert set(want) == set(solved.task)
    for name, value in want.items():
      np.testing.assert_array_equal(solved.task[name], value)
    state, _ = env.reset(jax.random.key(0), solved.task)
    for action in solved.actions:
      state = step(state, jnp.int32(action), jax.random.key(0))[0]
    assert env.score(state) == 1


def test_a_mirrored_level_is_the_same_task_and_the_seed_orders_them(tmp_path):
  texts, _ = generated_texts(sokoban_levels.Generated(), 40)
  mirrored = ['\n'.join(text.split('\n')[::-1]) for text in texts]
  source = boxoban.Boxoban(write(tmp_path, texts + mirrored))
  assert sum(source.sizes().values()) == 40
  # These were drawn from the train split of their keys, and stay there.
  assert source.sizes() == {'train': 40, 'test': 0}
  keys = [[s.key for s in source.tasks('train', 40, i)] for i in (0, 0, 1)]
  assert keys[0] == keys[1] != keys[2]
  assert len(set(keys[0])) == 40
  assert set(keys[0]) == set(keys[2])


def test_one_box_files_bring_distances(tmp_path):
  texts, _ = generated_texts(sokoban_levels.Generated(), 3)
  source = boxoban.Boxoban(write(tmp_path, texts))
  assert sokoban_levels.env_for(source).truth
  for solved in source.tasks('train', 3, 0):
    box = int(np.argmax(solved.task['boxes']))
    pair = int(solved.task['player']) * 36 + box
    assert solved.task['distance'][pair] == len(solved.actions)


def test_smaller_levels_are_padded_and_the_log_says_so(tmp_path, caplog):
  small, large = '#####\n#@$.#\n#####', '######\n#@$ .#\n#    #\n######'
  path = write(tmp_path, [small, large])
  source = boxoban.Boxoban(path)
  assert source.shape() == (4, 6, 1)
  logger = logging.getLogger('absl')
  logger.addHandler(caplog.handler)
  solved = everything(source)
  logger.removeHandler(caplog.handler)
  assert 'padded 1 of 2 levels to 4 x 6' in caplog.text
  env = sokoban_levels.env_for(source)
  texts = {
    base.render_text(env, env.reset(jax.random.key(0), s.task)[1])
    for s in solved
  }
  assert '######\n#PXO##\n######\n######\n' in texts
  assert sorted(len(s.actions) for s in solved) == [1, 2]
  key = sokoban_levels.level_key(sokoban_levels.parse_level(small.split('\n')))
  assert key in {s.key for s in solved}


def test_a_search_cut_short_leaves_no_demonstration(tmp_path):
  texts, _ = generated_texts(sokoban_levels.Generated(8, 8, 2, 12, 30), 4)
  path = write(tmp_path, texts)
  for limit in (0, 1):
    source = boxoban.Boxoban(path, max_nodes=limit)
    assert [s.actions for s in source.tasks('train', 4, 0)] == [[]] * 4


def test_a_folder_is_all_its_files(tmp_path):
  texts, _ = generated_texts(sokoban_levels.Generated(), 6)
  write(tmp_path, texts[:4], 'a.txt')
  write(tmp_path, texts[4:], 'b.txt')
  source = boxoban.Boxoban(str(tmp_path))
  assert sum(source.sizes().values()) == 6


def test_levels_without_headers_end_at_an_empty_line(tmp_path):
  file = tmp_path / 'x.txt'
  file.write_text(
    '\n; a comment\n\n#####\n#@$.#\n#####\n\n######\n#@$ .#\n######'
  )
  assert sum(boxoban.Boxoban(str(file)).sizes().values()) == 2


def test_name_follows_the_content_not_the_place(tmp_path):
  (tmp_path / 'other').mkdir()
  text = '#####\n#@$.#\n#####'
  first = boxoban.Boxoban(write(tmp_path, [text], 'my levels!.txt'))
  moved = boxoban.Boxoban(write(tmp_path / 'other', [text], 'my levels!.txt'))
  assert first.name() == moved.name()
  assert first.name().startswith('boxoban-my-levels-')
  assert first.name() != boxoban.Boxoban(first.path, max_nodes=7).name()
  before = first.name()
  write(tmp_path, ['#####\n#@$.#\n#   #\n#####'], 'my levels!.txt')
  assert first.name() != before


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('', 'levels.txt'),
    ('; 0\n', 'levels.txt'),
    (
      '; 0\n#####\n#@$.#\n#####\n\n; 1\n#####\n#@x.#\n#####\n',
      'levels.txt 1 8 x',
    ),
    ('#####\n#@$.#\n#####\n\n#####\n# $.#\n#####\n', 'levels.txt 1 5'),
    ('; 3\n#####\n\n#@$.#\n#####\n', '3 2'),
  ],
  ids=['empty', 'only a header', 'symbol', 'no header', 'gap'],
)
def test_wrong_files(tmp_path, text, message):
  file = tmp_path / 'levels.txt'
  file.write_text(text)
  with errors.raises(ValueError, message):
    boxoban.Boxoban(str(file)).shape()


def test_wrong_paths_and_counts(tmp_path):
  with pytest.raises(ValueError):
    boxoban.Boxoban(str(tmp_path / 'none.txt'))
  with errors.raises(ValueError, 'max_nodes -1'):
    boxoban.Boxoban(str(tmp_path), max_nodes=-1)
  with errors.raises(ValueError, '*.txt'):
    boxoban.Boxoban(str(tmp_path)).shape()
  source = boxoban.Boxoban(write(tmp_path, ['#####\n#@$.#\n#####']))
  with errors.raises(ValueError, '2 train'):
    list(source.tasks('train', 2, 0))


@pytest.mark.skipif(not PUBLIC.exists(), reason='the public levels are absent')
@pytest.mark.parametrize('file', ['unfiltered_test_000.txt', 'hard_000.txt'])
def test_public_levels(file):
  source = boxoban.Boxoban(str(PUBLIC / file), max_nodes=30)
  assert source.shape() == (10, 10, 4)
  assert sum(source.sizes().values()) == 1000
  env = sokoban_levels.env_for(source)
  solved = list(source.tasks('test', 150, 0))
  tasks = jit_tasks.stack(solved)
  reset = jax.jit(jax.vmap(env.reset, (None, 0)))
  _, obs = jax.device_get(reset(jax.random.key(0), tasks))
  known = set((PUBLIC / file).read_text().replace('; ', ';').split('\n;'))
  known = {block.partition('\n')[2].strip() for block in known}
  for row in obs[:20]:
    text = base.render_text(env, row).strip()
    plain = text.translate(str.maketrans('_OXPS', ' .$@+'))
    assert plain in known


ONE = '######\n#@ $.#\n#    #\n######'


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
  os.mkfifo(tmp_path / 'levels.txt')
  for path in (tmp_path / 'levels.txt', tmp_path):
    with errors.raises(ValueError, 'levels.txt'):
      boxoban.Boxoban(str(path))


def test_levels_are_parsed_once_for_sizes_shape_and_tasks(
  tmp_path, monkeypatch
):
  path, parse, seen = write(tmp_path, [ONE]), sokoban_levels.parse_level, []

  def spy(rows, name, line):
    seen.append(name)
    return parse(rows, name, line)

  monkeypatch.setattr(sokoban_levels, 'parse_level', spy)
  source = boxoban.Boxoban(path)
  sizes = source.sizes()
  assert source.shape() == (4, 6, 1)
  for split, size in sizes.items():
    assert len(list(source.tasks(split, size, 0))) == size
  assert len(seen) == 1
  write(tmp_path, [ONE, ONE.replace('@ ', ' @')])  # the file has changed
  assert sum(boxoban.Boxoban(path).sizes().values()) == 2
