"""The log of a made-up run, and its server."""

import contextlib
import threading

import pytest

from agentrl.log import trajectories
from agentrl.report.trajectories import server as trajectories_server
from tests.report import made_up_log


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp('run')
  made_up_log.write(path)
  return path


@pytest.fixture(scope='module')
def serve(folder):
  """serve(**settings) -> a server of the log that ends with its block."""

  @contextlib.contextmanager
  def f(**settings):
    log = trajectories.Log(folder)
    with trajectories_server.Server(log, '<b>run</b>', **settings) as server:
      threading.Thread(target=server.serve_forever, daemon=True).start()
      yield server
      server.shutdown()

  return f


@pytest.fixture(scope='module')
def server(serve):
  with serve() as server:
    yield server
