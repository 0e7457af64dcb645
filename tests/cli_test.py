"""Flags of the mains: a wrong one is one sentence, before anything is built."""

import json
import os
import subprocess
import sys

import pytest

from agentrl import cli
from agentrl.configs import grpo
from agentrl.run import config_file
from tests import errors

# One process parses all of it: flags of two mains cannot stand side by side.
PARSE = """
import contextlib, io, json, runpy, sys
from absl import flags
from agentrl import cli
cli.run = lambda main, required=(), operands=(): cli._parse(sys.argv, required)
out = []
for main, argv in json.load(sys.stdin):
  for name in set(flags.FLAGS) - {'help', 'helpshort', 'helpfull', 'helpxml'}:
    delattr(flags.FLAGS, name)
  cli._DOMAINS.clear()
  sys.argv = ['main', *argv]  # config_flags reads it
  errors = io.StringIO()
  try:
    with contextlib.redirect_stderr(errors):
      runpy.run_module('agentrl.experiments.' + main, run_name='__main__')
    out.append('accepted')
  except SystemExit as end:
    out.append(f'{end.code} {errors.getvalue()}')
  flags.FLAGS.unparse_flags()
print(json.dumps(out))
"""
W, C = '--workdir=w', f'--config={grpo.__file__}:tiny'
G = '--config=configs/grpo.py'
DUAL, HP = "--config.loss=('ppo_dual',)", '--config.hp.ppo_dual.ppo_dual'
# Of numbers a few: docs/COMMANDS.md has the domains of all flags.
CASES = [
  *(
    ('train', (G, f'--config.{field}={value}', W), field)
    for field, value in (
      *(('steps', x) for x in ('', 'ten', '1.5', 'é\u2028', '1e400')),
      ('role', '{}'),
      ('advantage', '1'),
      ('env.name', '..:x'),
      ('hp', 'x'),
      ('sft.lr', 'ten'),
      ('loss', 'None'),
    )
  ),
  ('train', (G, '--config.env.name=countdown', W), 'env.name'),
  ('train', (G,), '--workdir'),
  ('train', (W,), '--config'),
  ('train', ('--config=configs/nope.py', W), 'configs/nope.py'),
  ('train', ('--config=grop', W), 'grop grpo'),
  ('train', (f'{G}:tny', W), 'tny tiny'),
  ('train', (G, '--config.env.nam=x'), 'config.env.nam name'),
  ('train', (G, '--wrkdir=w'), '--wrkdir --workdir'),
  ('train', (G, W, "--config.loss=('ppo_dul',)"), 'ppo_dul ppo_dual'),
  ('train', (G, W, DUAL, f'{HP}.clip_lo=0.1'), 'clip_lo clip_low'),
  ('train', (C, W, f'{HP}.clip_low=0.1', DUAL), 'accepted'),
  ('sft', (G, '--config.steps=x'), 'config.steps x'),
  ('train', (G, W, '--config.steps', 'ten'), '--config.steps'),
  ('train', (G, W, '--config.lr=1e-4'), 'role.policy.lr sft.lr'),
  ('train', (G, W, '--config.coef.kl=.1'), 'kl_k3 config.loss'),
  ('train', (G, W, '--config.role.policy.lr=x: y'), 'role.policy.lr x'),
  ('export', (), '--workdir'),
  ('serve', ('a', '--port=70000'), '--port 70000'),
  ('train', (C, '--workdir='), '--workdir'),
  ('sweep', (C, '--workdir=gs://b/x'), 'gs://b/x'),
  ('train', (C, W, '--processes=0'), '--processes 0'),
  ('train', (C, W), 'accepted'),
  ('sft', (C, '--workdir=s3://b/x'), '--workdir s3://b/x'),
  ('eval', (W, '--temperature=nan'), '--temperature nan'),
  ('eval', (W, '--seed=99999999999'), '--seed 99999999999'),
  ('eval', (W, '--levels='), '--levels'),
  ('eval', (W, '--temperature=0', '--seed=3'), 'accepted'),
  ('search', (W, '--calls=0'), '--calls 0'),
  ('search', (W, '--evaluator=outcome'), 'accepted'),
  ('export', (W, '--out='), '--out'),
  ('export', (W, '--out=gs://x/y'), 'gs://x/y'),
  ('together', (C, '--workdir=', '--seeds=1'), '--workdir'),
  ('compare', ('--study=s.py', W, '--jobs=-2'), '--jobs -2'),
  ('compare', ('--study=', W), '--study'),
  ('compare', ('--workdir=gs://b/x',), 'gs://b/x'),
  ('plan', (C, '--topology=v5e-16', '--model='), '--model'),
  ('credit', ('--rate=nan',), '--rate nan'),
]


@pytest.mark.slow
def test_values_of_flags():
  """None of them reaches an accelerator."""
  asked = [(main, argv) for main, argv, _ in CASES]
  done = subprocess.run(
    [sys.executable, '-c', PARSE],
    input=json.dumps(asked),
    text=True,
    capture_output=True,
    env=os.environ | {'JAX_PLATFORMS': 'none'},
    timeout=300,
  )
  assert done.returncode == 0, done.stderr
  got = json.loads(done.stdout.splitlines()[-1])
  for (_, _, want), told in zip(CASES, got, strict=True):
    errors.check(told, want)
    if want != 'accepted':
      assert told.startswith('2 error: '), told
      assert 'Traceback' not in told
      assert told.count('\n') == 1, told


# Of every main, without what takes seconds to import.
HELP = """
import contextlib, io, json, runpy, sys
from absl import flags
from agentrl import cli
out, shared = {}, {*flags.FLAGS, 'help', 'helpshort', 'helpfull', 'helpxml'}
for name in cli.commands():
  for flag in set(flags.FLAGS) - shared:
    delattr(flags.FLAGS, flag)
  sys.argv, text = ['main', '--help'], io.StringIO()
  try:
    with contextlib.redirect_stdout(text):
      runpy.run_module('agentrl.experiments.' + name, run_name='__main__')
  except SystemExit as end:
    out[name] = [end.code, text.getvalue()]
assert not {'jax', 'flax', 'matplotlib', 'orbax'} & set(sys.modules)
print(json.dumps(out))
"""


def test_every_main_explains_itself_at_once():
  done = subprocess.run(
    [sys.executable, '-c', HELP], text=True, capture_output=True, timeout=300
  )
  assert done.returncode == 0, done.stderr
  got = json.loads(done.stdout.splitlines()[-1])
  assert {'train', 'compare', 'play'} <= set(got) == set(cli.commands())
  assert {code for code, _ in got.values()} == {0}
  assert '--workdir: Folder of the run' in got['train'][1]


def test_the_list_of_commands(monkeypatch, capsys):
  for words in ([], ['--help'], ['help']):
    monkeypatch.setattr(sys, 'argv', ['agentrl', *words])
    cli.command()
    lines = capsys.readouterr().out.splitlines()
    assert '  train           Trains an agent: supervised warm start,' in (
      line[:57] for line in lines
    )
  monkeypatch.setattr(sys, 'argv', ['agentrl', 'trian'])
  with pytest.raises(SystemExit) as end:
    cli.command()
  assert end.value.code == cli.MISTAKE
  assert "(did you mean 'train'?)" in capsys.readouterr().err


def test_a_component_named_by_a_flag_is_tuned_by_flags():
  c = config_file.load('grpo:tiny')
  words = ["--config.loss=('ppo_dual','entropy')", '--config.coef.entropy=0.1']
  cli._with_components(c, ['train', *words])
  assert c.loss == ('ppo_dual', 'entropy')
  assert c.hp.ppo_dual.ppo_dual.clip_low == 0.2
  assert c.coef.entropy == 1  # the flag itself is read later


def test_operands_in_brackets_may_be_left_out(capsys):
  given = []
  for argv in (['main'], ['main', 'a', 'b']):
    cli._guarded(lambda *words: given.append(words), argv, ('[RUN...]',))
  assert given == [(), ('a', 'b')]
  with pytest.raises(SystemExit):
    cli._guarded(given.append, ['main'], ('RUN...',))
  assert 'RUN is missing' in capsys.readouterr().err
