"""The pool of processes: each job once, never too many, none left behind."""

import sys

from agentrl.lab.sweep import local
from agentrl.lab.sweep import runs as sweep_runs
from agentrl.runtime import compile_cache


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
  for name in compile_cache.variables(''):
    monkeypatch.delenv(name, raising=False)
  env = sweep_runs.cache(str(tmp_path))
  [run] = sweep_runs.plan('configs/grpo.py:tiny', [{}], str(tmp_path))
  assert run.job.env == env
  env['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0'
  jobs = [_job(tmp_path, x, code)._replace(env=env) for x in ('one', 'two')]
  local.run(jobs, 1, lambda *_: None, every=0.05)
  said = [(tmp_path / x / 'log.txt').read_text() for x in ('one', 'two')]
  assert said == ['False\n', 'True\n']
  assert list((tmp_path / '.cache' / 'jax').iterdir())


def test_a_variable_of_the_user_is_not_overwritten(tmp_path, monkeypatch):
  monkeypatch.setenv('JAX_COMPILATION_CACHE_DIR', 'mine')
  code = 'import os; print(os.environ["JAX_COMPILATION_CACHE_DIR"])'
  env = compile_cache.variables('theirs')
  job = _job(tmp_path, 'one', code)._replace(env=env)
  local.run([job], 1, lambda *_: None, every=0.05)
  assert (tmp_path / 'one' / 'log.txt').read_text() == 'mine\n'


def test_a_cache_of_the_user_is_used_as_it_is(tmp_path, monkeypatch):
  """A limit on a folder first used without one: JAX then writes nothing."""
  monkeypatch.setenv('JAX_COMPILATION_CACHE_DIR', str(tmp_path / 'mine'))
  for name in set(compile_cache.variables('')) - {compile_cache.FOLDER}:
    monkeypatch.delenv(name, raising=False)
  program = (
    'import jax\n'
    'jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)\n'
    'jax.jit(lambda x: x * {} + 1)(2.0)\n'
  )
  for factor, env in ((3, {}), (5, sweep_runs.cache(str(tmp_path)))):
    job = _job(tmp_path, f'by{factor}', program.format(factor))
    local.run([job._replace(env=env)], 1, lambda *_: None, every=0.05)
    assert not (tmp_path / f'by{factor}' / 'log.txt').read_text()
  assert len(list((tmp_path / 'mine').glob('*-cache'))) == 2
