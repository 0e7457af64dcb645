"""README.md quotes OPRL's config as it is, and links to what exists."""

import pathlib
import re

from agentrl import loop
from docs.generate import loop_picture

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / 'README.md').read_text(encoding='utf-8')


def test_it_quotes_the_config_of_oprl():
  quote = re.search(r'<!-- oprl -->\n```python\n(.*?)```', TEXT, re.DOTALL)
  source = (ROOT / 'configs/oprl.py').read_text(encoding='utf-8')
  _, _, code = source.split('"""', 2)
  assert quote[1] == code.lstrip('\n')


def test_links_and_paths_of_the_map_exist():
  links = re.findall(r'\]\((?!http)([^)]+)\)', TEXT)
  assert len(links) > 15
  section = re.search(r'## The map\n(.*?)\n## ', TEXT, re.DOTALL)[1]
  for cell in re.findall(r'^\| (`[^|]*) \|', section, re.M):
    first, *rest = re.findall(r'`([^`]+)`', cell)
    links += [first, *(x if '/' in x else f'agentrl/{x}' for x in rest)]
  paths = [x.partition('#')[0] for x in links]
  assert [x for x in paths if not (ROOT / x).exists()] == []


def test_methods_it_names_have_configs():
  section = re.search(r'## Compare methods\n(.*?)\n- ', TEXT, re.DOTALL)[1]
  names = re.findall(r'`(\w+)`', section)
  assert len(names) > 40
  assert [x for x in names if not (ROOT / f'configs/{x}.py').exists()] == []


def test_the_picture_has_every_slot_of_the_loop():
  drawing = loop.__doc__.split('\n\n')[1]
  slots = set(re.findall(r'\w+', drawing)) - {'collect'}
  assert slots <= set(loop_picture.SLOTS)
  assert (ROOT / loop_picture.OUT).is_file()
