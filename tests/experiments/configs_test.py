"""Every config loads, fits together, and can be changed by flags."""

import glob
import importlib
import os
import re

import pytest
from absl import flags
from ml_collections import config_flags

from agentrl import registry
from configs import base

FILES = sorted(
  set(glob.glob('configs/*.py')) - {'configs/__init__.py', 'configs/base.py'}
)
METHODS = [os.path.basename(path)[:-3] for path in FILES]
ARGS = ('', 'tiny', 'env=frozen_lake', 'tiny,env=frozen_lake')


def parse(*argv):
  """The config as a main sees it after its flags."""
  values, argv = flags.FlagValues(), ['main', *argv]
  holder = config_flags.DEFINE_config_file(
    'config', None, lock_config=True, flag_values=values, sys_argv=argv
  )
  values(argv)
  return holder.value


def test_there_are_configs():
  assert {'oprl', 'grpo', 'rloo', 'gigpo', 'prime', 'ppo'} <= set(METHODS)


@pytest.mark.parametrize('arg', ARGS)
@pytest.mark.parametrize('method', METHODS)
def test_config_fits_together(method, arg):
  c = importlib.import_module(f'configs.{method}').get_config(arg)
  assert c.method == method
  registry.check(base.wiring(c))


@pytest.mark.parametrize('method', METHODS)
def test_every_hyper_parameter_is_a_field(method):
  c = importlib.import_module(f'configs.{method}').get_config('tiny')
  assert c.hp.to_dict() == registry.defaults(base.wiring(c))
  assert set(c.coef) == {*c.advantage, *c.loss}


@pytest.mark.parametrize('path', FILES)
def test_file_is_short_and_says_how_to_run_it(path):
  with open(path, encoding='utf-8') as f:
    text = f.read()
  assert len(text.splitlines()) <= 60
  doc = importlib.import_module(path[:-3].replace('/', '.')).__doc__
  assert f'--config={path}' in doc
  assert re.search(r'\b\d{4}\.\d{4,5}\b', doc)  # an arXiv number


def test_flags_reach_tuples_coefficients_and_hyper_parameters():
  c = parse(
    '--config=configs/oprl.py:tiny',
    "--config.stream.step=('add_signal','leave_one_out')",
    '--config.hp.signal.implicit_prm.beta=0.1',
    '--config.coef.step=0.5',
    "--config.hp.step.center.by=('group','state')",
    '--config.env.reward=sparse',
  )
  assert c.stream.step == ('add_signal', 'leave_one_out')
  w = base.wiring(c)
  registry.check(w)
  assert w.values('signal', 'implicit_prm')['beta'] == 0.1
  assert w.values('step', 'center')['by'] == ('group', 'state')
  assert (c.coef.step, c.env.reward) == (0.5, 'sparse')


def test_a_flag_takes_a_stream_away():
  c = parse('--config=configs/oprl.py:tiny', "--config.advantage=('episode',)")
  registry.check(base.wiring(c))
  assert c.advantage == ('episode',)


def test_unknown_field_is_refused():
  with pytest.raises(AttributeError, match='betta'):
    parse(
      '--config=configs/oprl.py:tiny',
      '--config.hp.signal.implicit_prm.betta=1.0',
    )


def test_wrong_type_is_refused():
  with pytest.raises(flags.IllegalFlagValueError, match='steps=many'):
    parse('--config=configs/oprl.py:tiny', '--config.steps=many')


def test_hyper_parameter_of_no_piece_is_refused():
  c = base.get_config('tiny')
  base.hp(c, 'episode', 'scale', ddof=0)
  with pytest.raises(ValueError, match=r'c\.hp\.episode\.scale'):
    base.finish(c)


def test_hyper_parameter_of_another_name_is_refused():
  c = base.get_config('tiny')
  base.hp(c, 'ppo', 'ppo', clip=0.1)
  with pytest.raises(ValueError, match=r'clip is not a hyper-parameter'):
    base.finish(c)


def test_reducer_of_no_term_is_refused():
  c = base.get_config('tiny')
  c.reduce.ppo_dual = 'token_mean'
  with pytest.raises(ValueError, match=r'c\.reduce\.ppo_dual is for no term'):
    base.finish(c)


def test_coefficient_of_no_stream_is_refused():
  c = base.get_config('tiny')
  c.coef.step = 2.0
  with pytest.raises(ValueError, match=r'c\.coef\.step'):
    base.finish(c)
