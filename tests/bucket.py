"""An emulated bucket: each test has a folder of its own in it."""

import functools
import os
import uuid

import pytest
from gcp_storage_emulator.server import create_server

NAME = 'bucket'


@functools.cache
def emulator() -> str:
  """Starts the server of this process, once; its address."""
  server = create_server('localhost', 0, in_memory=True, default_bucket=NAME)
  server._api.daemon = True  # it ends with the process
  server.start()
  # Clients that hang up early are no news.
  server._api._httpd.handle_error = lambda *_: None
  port = server._api._httpd.server_address[1]
  return f'http://localhost:{port}'


@pytest.fixture
def bucket() -> str:
  """-> the gs:// path of an empty folder."""
  os.environ['STORAGE_EMULATOR_HOST'] = emulator()
  os.environ['TENSORSTORE_GCS_HTTP_URL'] = emulator()
  # Asking which kind of bucket it is takes credentials.
  os.environ['GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT'] = 'false'
  return f'gs://{NAME}/{uuid.uuid4().hex}'
