"""What is no family says so, and what to do, before a config is made of it."""

import dataclasses

import pytest

from agentrl.env import base
from agentrl.env.worlds import countdown
from agentrl.env.worlds.interview import Interview
from tests import errors

ME = __name__


class Bare(countdown.Countdown):
  """The fields of another, and nothing else: still a dataclass."""


class Plain:
  settings = 3


@dataclasses.dataclass(frozen=True)
class Few:
  level: int = 1

  columns = ()
  worker = 'thread'


@dataclasses.dataclass(frozen=True)
class Seeded(countdown.Countdown):
  seed: int = 0
  train: int = 3


@dataclasses.dataclass(frozen=True)
class Mapped(countdown.Countdown):
  items: int = 3  # a method of ConfigDict


@dataclasses.dataclass(frozen=True)
class Made(countdown.Countdown):
  words: tuple = dataclasses.field(default_factory=tuple)


def test_what_ships_is_found():
  assert all(base.find(name) for name in base.FAMILIES)
  assert base.find(f'{ME}:Bare') is Bare
  assert (
    base.find('agentrl.env.worlds.countdown:Countdown') is countdown.Countdown
  )


@pytest.mark.parametrize(
  ('name', 'sentence'),
  [
    ('os:path', 'os:path'),
    ('countdwn', 'countdwn countdown module:Class'),
    (f'{ME}:Plain', ''),
    (f'{ME}:Few', 'system name tasks env'),
    (f'{ME}:Seeded', 'train seed c.env'),
    (f'{ME}:Mapped', 'items c.env'),
    (f'{ME}:Made', 'words'),
  ],
)
def test_what_is_no_family(name, sentence):
  with errors.raises(ValueError, sentence):
    base.find(name)


def test_a_family_that_marks_no_calls_has_thoughts_and_answers():
  text = '<think>a</think><calculator>2</calculator><answer>3</answer>'
  plain, tooled = Interview(), countdown.Countdown()
  parts = {'thought': '<think>a</think>', 'answer': '<answer>3</answer>'}
  call = {'call': '<calculator></calculator>', 'argument': '2'}
  served = base.WithServices(tooled, tooled.env)
  for family, want in (
    (plain, parts),
    (tooled, parts | call),
    (served, parts | call),
  ):
    out = dict.fromkeys(want, '')
    for start, end, part in base.spans(family, text):
      out[part] += text[start:end]
    assert out == want


@pytest.mark.parametrize(
  'name', ['..:x', '.:x', ':x', 'a b:x', 'os:', '1/0:x', 'json:None', '\0:x']
)
def test_a_name_that_is_no_module_is_refused_by_its_field(name):
  with errors.raises(ValueError, 'env.name'):
    base.find(name)


def test_settings_of_another_environment_are_named():
  with errors.raises(ValueError, 'countdown env.boxes 1'):
    base.of({'name': 'countdown', 'boxes': 1, 'train': 5})
