"""Tests mirror the tree: agentrl/x/y.py is tested in tests/x/y_test.py."""

import pathlib

ROOT = pathlib.Path(__file__).parent.parent
# Of the modules, at least.
SHARE = 0.95
# Types alone, or a program that only a process of its own runs.
EXCEPTIONS = {
  'types.py',
  'memory/base.py',
  'signal/base.py',
  'text/message.py',
  'rollout/workers/process_main.py',
  'tool/sandbox/native/namespaces.py',
  'tool/sandbox/native/probe.py',
  'tool/sandbox/native/program.py',
}


def test_most_modules_have_a_test_of_their_name():
  modules = [
    path.relative_to(ROOT / 'agentrl')
    for path in sorted((ROOT / 'agentrl').rglob('*.py'))
    if not path.name.startswith('__')
  ]
  modules = [
    path
    for path in modules
    if path.parts[0] not in ('configs', 'experiments')
    and path.as_posix() not in EXCEPTIONS
  ]
  lacking = [
    str(path)
    for path in modules
    if not (ROOT / 'tests' / path).with_name(f'{path.stem}_test.py').exists()
  ]
  share = 1 - len(lacking) / len(modules)
  assert share >= SHARE, f'{share:.2f} have one; these lack it: {lacking}'


def test_an_exception_has_no_test():
  for name in EXCEPTIONS:
    path = ROOT / 'tests' / name
    assert (ROOT / 'agentrl' / name).exists()
    assert not path.with_name(f'{path.stem}_test.py').exists()
