"""Sweeps: which runs there are, and that each is run once, to its end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from agentrl.sweep import grid, local
from agentrl.sweep import runs as sweep_runs


def test_names_depend_on_the_changes_alone():
  one = grid.name_of({'seed': 1, 'role.policy.lr': 1e-3})
  assert one == grid.name_of({'role.policy.lr': 1e-3, 'seed': 1})
  assert one == 'role.policy.lr=0.001,seed=1'
  long = [grid.name_of({'env.levels': 'x' * 200 + end}) for end in 'ab']
  assert len(set(long)) == 2
  assert max(map(len, long)) <= grid.LONGEST
  assert '/' not in grid.name_of({'env.levels': '../levels'})


def test_expand():
  def sweep(add):
    for x in grid.grid(role__policy__lr=(1, 2), steps=(3,)):
      add(x)

  runs = grid.expand(sweep, [grid.axis('coef.step=0.5,1')], 2)
  assert len(runs) == 8
  assert runs[0] == {
    'role.policy.lr': 1, 'steps': 3, 'coef.step': 0.5, 'seed': 0,
  }  # fmt: skip
  assert grid.expand(None, [], 0) == [{}]
  with pytest.raises(ValueError, match='more than once'):
    grid.expand(lambda add: [add({'seed': 1}) for _ in range(2)], [], 0)


def test_axes():
  assert grid.axis("finish=('whiten',),()") == ('finish', [('whiten',), ()])
  assert grid.axis('env.name=sokoban,frozen_lake')[1] == [
    'sokoban', 'frozen_lake',
  ]  # fmt: skip
  assert list(grid.zipped(a=(1, 2), b=(3, 4))) == [
    {'a': 1, 'b': 3}, {'a': 2, 'b': 4},
  ]  # fmt: skip
  points = list(grid.draws(50, lr=('log', 1e-4, 1e-2)))
  assert points == list(grid.draws(50, lr=('log', 1e-4, 1e-2)))
  assert all(1e-4 <= p['lr'] <= 1e-2 for p in points)
  for wrong in (
    lambda: grid.axis('seed'),
    lambda: list(grid.zipped(a=(1,), b=(1, 2))),
    lambda: list(grid.draws(1, lr=('log', 0.0, 1.0))),
  ):
    with pytest.raises(ValueError):
      wrong()


def test_a_mistake_in_one_run_is_told_before_any_starts(tmp_path):
  for changes, words in (
    ({'role.polcy.lr': 1.0}, 'no field'),
    ({'steps': 'many'}, 'does not fit'),
    ({'rollout.group': 7}, 'rollout.group=7'),
  ):
    with pytest.raises(ValueError, match=words):
      sweep_runs.plan('configs/grpo.py:tiny', [{}, changes], tmp_path)


def _job(tmp_path, name, code):
  command = (sys.executable, '-c', code)
  return local.Job(name, command, str(tmp_path / name / 'log.txt'))


def test_pool_runs_everything_and_never_too_many(tmp_path):
  most = []
  jobs = [_job(tmp_path, f'{i}', 'print("x")') for i in range(4)]
  jobs.append(_job(tmp_path, 'bad', 'raise SystemExit(3)'))
  got = local.run(jobs, 2, lambda r, done: most.append(len(r)), every=0.05)
  assert got == {'0': 0, '1': 0, '2': 0, '3': 0, 'bad': 3}
  assert max(most) <= 2
  assert (tmp_path / '0' / 'log.txt').read_text() == 'x\n'


def test_what_one_job_compiles_the_next_one_finds(tmp_path, monkeypatch):
  code = (
    'import jax\n'
    'found = []\n'
    'jax.monitoring.register_event_listener(lambda e, **_: found.append(e))\n'
    'jax.jit(lambda x: x * 3 + 1)(2.0)\n'
    'print(any("cache_hits" in e for e in found))\n'
  )
  env = sweep_runs.cache(str(tmp_path))
  for name in env:
    monkeypatch.delenv(name, raising=False)
  [run] = sweep_runs.plan('configs/grpo.py:tiny', [{}], str(tmp_path))
  assert run.job.env == env
  env['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0'
  jobs = [_job(tmp_path, x, code)._replace(env=env) for x in ('one', 'two')]
  local.run(jobs, 1, lambda *_: None, every=0.05)
  said = [(tmp_path / x / 'log.txt').read_text() for x in ('one', 'two')]
  assert said == ['False\n', 'True\n']
  assert list((tmp_path / '.cache' / 'jax').iterdir())


def test_runs_that_go_together(tmp_path):
  runs = list(grid.grid(steps=(3, 4), seed=(0, 1, 2)))
  plan = sweep_runs.plan('configs/grpo.py:tiny', runs, str(tmp_path))
  groups = sweep_runs.groups(plan, 2)
  assert [[r.name for r in x] for x in groups] == [
    ['seed=0,steps=3', 'seed=1,steps=3'], ['seed=2,steps=3'],
    ['seed=0,steps=4', 'seed=1,steps=4'], ['seed=2,steps=4'],
  ]  # fmt: skip
  assert sweep_runs.groups(plan, 1) == [[r] for r in plan]


def test_a_variable_of_the_user_is_not_overwritten(tmp_path, monkeypatch):
  monkeypatch.setenv('JAX_COMPILATION_CACHE_DIR', 'mine')
  code = 'import os; print(os.environ["JAX_COMPILATION_CACHE_DIR"])'
  job = _job(tmp_path, 'one', code)._replace(env=sweep_runs.cache('theirs'))
  local.run([job], 1, lambda *_: None, every=0.05)
  assert (tmp_path / 'one' / 'log.txt').read_text() == 'mine\n'


def test_children_end_with_a_killed_parent(tmp_path):
  code = (
    'from agentrl.sweep import local\n'
    'import sys\n'
    'child = (sys.executable, "-c", "import os, time;'
    ' print(os.getpid(), flush=True); time.sleep(60)")\n'
    f'job = local.Job("a", child, {str(tmp_path / "log.txt")!r})\n'
    'local.run([job], 1, lambda *_: None, every=0.05)\n'
  )
  parent = subprocess.Popen([sys.executable, '-c', code], cwd=os.getcwd())
  log = tmp_path / 'log.txt'
  while not (log.exists() and log.read_text()):
    time.sleep(0.05)
  child = int(log.read_text())
  os.kill(parent.pid, signal.SIGKILL)
  parent.wait()
  for _ in range(100):
    with (
      open(f'/proc/{child}/stat') if _alive(child) else open(os.devnull) as f
    ):
      if f.read().rpartition(') ')[2][:1] in ('', 'Z'):
        return
    time.sleep(0.05)
  raise AssertionError(f'process {child} is still there')


def _alive(pid):
  return os.path.exists(f'/proc/{pid}/stat')


@pytest.mark.slow
def test_cut_off_and_repeated(tmp_path):
  """A sweep that is killed and repeated has the results of one that is not."""

  def start(folder):
    command = (
      *(sys.executable, '-m', 'experiments.sweep', '--jobs=2', '--seeds=2'),
      *('--config=configs/grpo.py:tiny,env=frozen_lake', '--grid=steps=2,3'),
      '--grid=sft.steps=4', '--grid=eval.episodes=16',
      f'--workdir={tmp_path / folder}',
    )  # fmt: skip
    return subprocess.Popen(command)

  assert start('whole').wait() == 0
  killed = start('cut')
  time.sleep(25)
  killed.send_signal(signal.SIGKILL)
  killed.wait()
  assert start('cut').wait() == 0
  one, other = (
    (tmp_path / x / 'sweep.json').read_text() for x in ('whole', 'cut')
  )
  strip = lambda text: [  # noqa: E731
    line for line in text.splitlines() if 'time/' not in line
  ]
  assert strip(one) == strip(other)
  assert one.count('"name"') == 4
