"""README.md is short, quotes OPRL's config as it is, and names what exists."""

import re

from agentrl import loop
from docs.generate import loop_picture
from tests.docs.pages import ROOT, Page

TEXT = Page('README.md').text


def test_it_quotes_the_config_of_oprl():
  quote = re.search(r'<!-- oprl -->\n```python\n(.*?)```', TEXT, re.DOTALL)
  source = (ROOT / 'configs/oprl.py').read_text(encoding='utf-8')
  _, _, code = source.split('"""', 2)
  assert quote[1] == code.lstrip('\n')


def test_its_world_is_an_example():
  quote = re.search(r'<!-- world -->\n```python\n(.*?)```', TEXT, re.DOTALL)
  source = (ROOT / 'examples/guess.py').read_text(encoding='utf-8')
  _, _, code = source.split('"""', 2)
  assert quote[1] == code.lstrip('\n')


def test_it_is_short():
  assert len(TEXT.split()) <= 1200


def test_its_configs_load():
  arguments = set(re.findall(r'--config=configs/(\S+)', TEXT))
  assert len(arguments) > 5
  for name in {x.partition('.py')[0] for x in arguments}:
    assert (ROOT / f'configs/{name}.py').is_file()


def test_the_picture_has_every_slot_of_the_loop():
  drawing = loop.__doc__.split('\n\n')[1]
  slots = set(re.findall(r'\w+', drawing)) - {'collect'}
  assert slots <= set(loop_picture.SLOTS)
  assert (ROOT / loop_picture.OUT).is_file()
