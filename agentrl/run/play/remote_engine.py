"""Generators on other machines, as c.host.generator names them."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.configs.config import Config
from agentrl.model import hf_config, hf_weights, peft, published
from agentrl.nn import lora, transformer
from agentrl.rollout.remote import probe
from agentrl.rollout.remote.generator import RemoteGenerator, RemoteServer
from agentrl.rollout.remote.wire import WIRE_FORMATS, Published
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import PyTree

# Letter by letter: who tokenises again reads fewer tokens.
PROMPT = 'Is the door open? Look up, then go on and say what you see there.'


def wanted(c: Config) -> bool:
  """Returns whether another machine generates."""
  return bool(c.host.generator)


def validate(c: Config) -> None:
  """Raises ValueError, one sentence, for a generator that cannot be used."""
  if not wanted(c):
    return
  h, name = c.host, f'host.generator={c.host.generator!r}'
  if not h.generator.startswith(('http://', 'https://')):
    raise ValueError(
      f"host.generator must be like 'http://HOST:PORT', got {h.generator!r}"
    )
  for field in ('generator_model', 'generator_folder'):
    if not getattr(h, field):
      raise ValueError(f'{name} needs host.{field}; set it')
  wire_format = WIRE_FORMATS[h.generator_kind]
  if not wire_format.whole and not c.lora.rank:
    raise ValueError(
      f'{name} is of kind {h.generator_kind!r}, which takes new weights as'
      ' adapters only; set lora.rank'
    )
  for field, usual in (('top_k', 0), ('top_p', 1.0)):
    if (value := getattr(c.rollout, field)) != usual:
      raise ValueError(
        f'rollout.{field}={value}, and {name} does not say which'
        f' tokens it leaves out; set it to {usual}'
      )
  if jax.process_count() > 1:
    raise ValueError(
      f'{name} is asked by one process, and there are {jax.process_count()};'
      ' train in one, or leave it out'
    )


def open_generator(
  c: Config, shape: transformer.DecoderConfig, tokenizer: Tokenizer
) -> RemoteGenerator:
  """Opens the generator of a config; nothing is sent yet.

  Args:
    shape: of the policy, which it generates with
  """
  h = c.host
  server = RemoteServer(
    h.generator, h.generator_kind, h.generator_model, h.generator_key_env
  )
  adapter = c.lora.rank > 0 and server.wire_format.adapters

  def write(folder: pathlib.Path, params: PyTree) -> None:
    if adapter:
      low_rank = lora.Lora(c.lora.rank, c.lora.alpha, c.lora.pattern)
      tree = published.adapter_of(params)
      peft.write(folder, shape, low_rank, tree, base=c.model.path)
      return
    config = None
    if c.model.path:
      config = hf_config.read(hf_weights.locate(c.model.path, weights=False))
    published.write(folder, shape, params, config)

  def check(server: RemoteServer, params: PyTree, made: Published) -> None:
    probe.check(
      server,
      lambda *args: log_probs(shape, params, *args),
      prompt(tokenizer),
      eot=tokenizer.eot,
      temperature=c.rollout.temperature,
      published=made,
    )

  return RemoteGenerator(
    server,
    h.generator_folder,
    write,
    eot=tokenizer.eot,
    adapter=adapter,
    threads=c.rollout.slots,
    probe=check,
  )


def prompt(words: Tokenizer) -> list[int]:
  """Encodes `PROMPT`, a character at a time."""
  return [i for x in PROMPT for i in words.encode(x)]


def log_probs(
  shape: transformer.DecoderConfig,
  params: PyTree,
  context: list[int],
  ids: list[int],
  temperature: float,
) -> np.ndarray:
  """Returns log-probs [n] f32 of a message after a context, nats."""
  tokens = jnp.array([[*context, *ids]], jnp.int32)
  hidden = transformer.forward(shape, params, tokens, jnp.zeros_like(tokens))
  logits = transformer.logits(params, hidden, shape.logit_cap)[0]
  logp = jax.nn.log_softmax(logits / temperature, axis=-1)
  at = np.arange(len(context), tokens.shape[1])
  return np.asarray(logp[at - 1, tokens[0, at]])
