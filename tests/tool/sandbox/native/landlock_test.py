"""Which rights of the kernel are asked for, and for which paths."""

from agentrl.tool.sandbox.native import landlock


def test_landlock_asks_no_version_for_what_it_does_not_know():
  assert [landlock.rights(v) for v in (1, 2, 3, 4, 5, 6, 9)] == [
    (0x1FFF, 0, 0),
    (0x3FFF, 0, 0),
    (0x7FFF, 0, 0),
    (0x7FFF, 3, 0),
    (0xFFFF, 3, 0),
    (0xFFFF, 3, 3),
    (0xFFFF, 3, 3),
  ]


def test_landlock_names_all_but_the_hidden(tmp_path):
  for name in ('a/b/x', 'a/c/y', 'd/z'):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
  (tmp_path / 'a' / 'link').symlink_to(tmp_path / 'a' / 'b')
  root = str(tmp_path)
  assert list(landlock.spread(root, [])) == [root]
  assert list(landlock.spread(root, [root + '/a/b'])) == [
    root + '/a/c',
    root + '/d',
  ]
  assert not list(landlock.spread(root + '/a/b', [root + '/a/b']))


def test_of_the_root_all_but_the_hidden_is_named():
  named = list(landlock.spread('/', ['/dev']))
  assert '/usr' in named
  assert not [path for path in named if path == '/' or path.startswith('/dev')]
  assert list(landlock.spread('/', [])) == ['/']
