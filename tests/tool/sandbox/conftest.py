"""A host that code in a sandbox could harm."""

import os
import pathlib
import socket
import subprocess
import sysconfig
import threading

import pytest


class Host:
  """What escapes look for: a file, a process, servers, an open descriptor."""

  def __init__(self, folder: pathlib.Path):
    folder.chmod(0o777)
    self.folder = folder
    self.canary = folder / 'canary'
    self.canary.write_text('canary')
    self.canary.chmod(0o666)
    (folder / 'planted.py').write_text('x = 1')
    self.extra = os.open(self.canary, os.O_RDONLY)
    os.set_inheritable(self.extra, True)
    self.servers = [
      socket.create_server(('127.0.0.1', 0)),
      socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
      *(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in 'ab'),
    ]
    tcp, stream, path, abstract = self.servers
    self.port = tcp.getsockname()[1]
    stream.bind(str(folder / 'stream'))
    stream.listen()
    path.bind(str(folder / 'socket'))
    abstract.bind('\0' + str(folder / 'socket'))
    for name in ('stream', 'socket'):
      (folder / name).chmod(0o777)
    threading.Thread(target=self._answer, daemon=True).start()
    self.victim = None
    self.before = self.state()

  def _answer(self):
    """Takes what knocks, and hangs up."""
    while True:
      try:
        self.servers[0].accept()[0].close()
      except OSError:
        return

  def new_victim(self) -> int:
    if self.victim is None or self.victim.poll() is not None:
      self.victim = subprocess.Popen(
        ['sleep', '1000'],
        env=dict(SECRET='secret', PATH=os.environ['PATH']),
        start_new_session=True,
      )
    return self.victim.pid

  def state(self):
    """What code must not change."""
    facts = self.canary.stat() if self.canary.exists() else None
    return (
      sorted(os.listdir(self.folder)),
      self.canary.read_bytes() if facts else None,
      facts and (facts.st_mode, facts.st_mtime, facts.st_nlink),
      pathlib.Path('/proc/self/mountinfo').read_text(),
    )

  def given(self, code: str) -> str:
    names = dict(
      CANARY=str(self.canary),
      PLANT='planted',
      SITE=sysconfig.get_path('purelib'),
      VICTIM=self.new_victim(),
      PORT=self.port,
      SOCKET=str(self.folder / 'socket'),
      STREAM=str(self.folder / 'stream'),
    )
    return ''.join(f'{k} = {v!r}\n' for k, v in names.items()) + code

  def close(self):
    os.close(self.extra)
    for server in self.servers:
      server.close()
    if self.victim:
      self.victim.kill()
      self.victim.wait()


@pytest.fixture
def host(tmp_path, monkeypatch):
  # The folders above are pytest's and closed to others: an escape as nobody
  # would stop there, and prove nothing.
  for folder in tmp_path.parents:
    if folder.stat().st_uid == os.getuid() and len(folder.parts) > 2:
      folder.chmod(folder.stat().st_mode | 0o011)
  monkeypatch.setenv('SECRET', 'secret')
  monkeypatch.chdir(tmp_path)
  held = Host(tmp_path)
  yield held
  held.close()
