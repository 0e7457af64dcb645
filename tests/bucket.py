"""An emulated bucket: each test has a folder of its own in it."""

import functools
import os
import uuid
from collections.abc import Callable

import pytest
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.server import HANDLERS, create_server

NAME = 'bucket'


@functools.cache
def emulator() -> str:
  """Starts the server of this process, once; its address."""
  for _, handlers in HANDLERS:
    for method, handle in handlers.items():
      if handle in (objects.download, objects.get):
        handlers[method] = _with_generation(handle)
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


def _with_generation(handle: Callable) -> Callable:
  """The header that a real bucket sends, on which tensorstore's next write of
  the object is conditional; without it that write is refused now and then.
  """

  def handled(request, response, storage, *args, **kwargs):
    handle(request, response, storage, *args, **kwargs)
    bucket, name = (request.params[x] for x in ('bucket_name', 'object_id'))
    try:
      held = storage.get_file_obj(bucket, name)
    except NotFound:
      return
    response['X-Goog-Generation'] = held['generation']

  return handled
