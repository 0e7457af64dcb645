"""Generator on other machines: vLLM, SGLang or our own server, over HTTP.

  update_weights   publishes the parameters in a folder that both sides see,
                   and has the server load them; the first time it is probed
  submit, collect  tokens go out, tokens with log-probs come back

Every answer must come from the version that was loaded last; one that does not
costs its trajectory. The learner computes log-probs again, as of all tokens:
`logp/sampler_mismatch` is how far the server is from it.
"""

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Callable, Sequence

from agentrl.rollout.engine.engine import Completion, SamplingParams
from agentrl.rollout.remote import wire
from agentrl.rollout.remote.wire import Published, RemoteMessage
from agentrl.rollout.threaded import ThreadedGenerator
from agentrl.runtime import publish
from agentrl.service import json_post
from agentrl.service.base import ServiceFault
from agentrl.types import PyTree

TRIES = 5  # of a request


@dataclasses.dataclass(frozen=True)
class RemoteServer:
  """A server of generation, and what is said to it."""

  address: str  # 'http://HOST:PORT'
  kind: str  # one of wire.WIRE_FORMATS
  model: str  # its name of the model
  key_env: str = ''  # environment variable of its key; '': none
  timeout: float = 600.0  # seconds for an answer

  @property
  def wire_format(self) -> wire.WireFormat:
    return wire.WIRE_FORMATS[self.kind]

  def post(self, request: wire.Request) -> bytes:
    """Returns the body of the answer.

    Raises:
      ServiceFault: the server refuses the request, or fails again and again.
    """
    path, body = request
    url = f'{self.address.rstrip("/")}/{path}'
    secret = os.environ.get(self.key_env, '').strip()
    data = json.dumps(body).encode()
    for tried in range(1, TRIES + 1):
      try:
        return json_post.post(url, data, secret, self.timeout)
      except json_post.Again as error:
        if tried == TRIES:
          raise ServiceFault(
            f'no answer in {TRIES} tries; the last one: {error}'
          ) from None
        time.sleep(json_post.pause(tried, error))
    raise AssertionError('there is at least one try')

  def generate(
    self,
    context: Sequence[int],
    how: SamplingParams,
    eot: int,
    published: Published,
  ) -> RemoteMessage:
    """Returns a message of a version. Raises ServiceFault."""
    request = self.wire_format.generate(
      self.model, context, how, eot, published
    )
    message = wire.parse(self.wire_format, self.post(request))
    if published.adapter:  # the request named it
      return message._replace(version=str(published.number))
    return message


# (server, parameters, what was published): raises ValueError unless the server
# can be trained with.
Probe = Callable[[RemoteServer, PyTree, Published], None]


class RemoteGenerator:
  """See rollout.engine.generator.Generator; open until `close`."""

  def __init__(
    self,
    server: RemoteServer,
    folder: str,
    write: Callable[[pathlib.Path, PyTree], None],
    *,
    eot: int,
    adapter: bool,
    threads: int,
    probe: Probe,
  ):
    """Sends nothing yet.

    Args:
      folder: where versions are published
      write: files of parameters into a folder
      adapter: what is written is an adapter of the server's model
      threads: requests at a time
      probe: called once, after the first version was loaded
    """
    self._server, self._folder, self._write = server, folder, write
    self._eot, self._adapter, self._probe = eot, adapter, probe
    self._generator = ThreadedGenerator(self._generate, threads)
    self._given: PyTree = None
    self._published: Published | None = None
    self._version, self._counts = 0, dict.fromkeys(('updates',), 0)
    self.submit = self._generator.submit
    self.dispatch = self._generator.dispatch
    self.collect = self._generator.collect
    self.cancel = self._generator.cancel
    self.close = self._generator.close

  @property
  def busy(self) -> bool:
    return self._generator.busy

  def update_weights(self, params: PyTree, version: int) -> None:
    """Publishes the parameters and has the server load them.

    Raises:
      ValueError: the server does not load them, or fails its probe.
    """
    self._version = version
    if params is self._given:
      return
    number = publish.newest(self._folder) + 1
    path = publish.publish(
      self._folder, number, lambda folder: self._write(folder, params)
    )
    name = f'policy-{path.name}' if self._adapter else ''
    new, before = Published(str(path), number, name), self._published
    wire_format = self._server.wire_format
    try:
      self._server.post(wire_format.update(new))
      if before is not None and before.adapter:
        self._server.post(wire_format.unload(before.adapter))
    except ServiceFault as fault:
      raise ValueError(
        f'host.generator={self._server.address!r} did not load {path}: {fault}'
      ) from None
    if before is None:
      self._probe(self._server, params, new)
    self._given, self._published = params, new
    self._counts['updates'] += 1

  def taken(self) -> dict[str, int]:
    """Returns the counts since the last call."""
    counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
    return counts

  def _generate(
    self, context: Sequence[int], how: SamplingParams
  ) -> Completion:
    published = self._published
    if published is None:
      raise ServiceFault('no weights were published; update_weights')
    made = self._server.generate(context, how, self._eot, published)
    if made.version != str(published.number):
      raise ServiceFault(
        f'a message of weights {made.version!r}, and {published.number} were'
        ' loaded'
      )
    ids = made.ids[: how.budget]
    size = (how.stop(ids) if how.stop else 0) or len(ids)
    logp = made.logp[:size]
    # -logp is an estimate of the entropy that is right on average.
    entropy = [-x for x in logp]
    return Completion(0, ids[:size], logp, entropy, [self._version] * size)
