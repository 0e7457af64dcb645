"""Policy: a language model to sample from, to score with and to train."""

import collections
import dataclasses
import functools
import operator
import os
import threading
from collections.abc import Mapping, Sequence, Set, Sized
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.configs.config import Config
from agentrl.configs.sections import ModelConfig
from agentrl.domain import COUNT, SEED, TEMPERATURE, Path, Whole
from agentrl.model import policy as model_policy
from agentrl.nn import transformer
from agentrl.rollout import keys
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes
from agentrl.run import pretrained, weights
from agentrl.run import workdir as workdir_lib
from agentrl.text import chat_format
from agentrl.text.chat_template import Message
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Array, Batch, Outputs, PyTree, Rows

# A text, messages that are each a 'role' and a 'content', or token ids.
Prompt = str | Sequence[Mapping[str, str]] | Sequence[int]
SLOTS = 64  # messages sampled at a time, unless told otherwise
_MULTIPLE = 64  # of tokens of a slot or a row: few sizes are compiled
_ROWS = 16  # read at a time by `logp`


class Sample(NamedTuple):
  """A sampled message."""

  prompt: list[int]  # ids that it follows
  ids: list[int]  # with the end of turn, if it was sampled
  logp: list[float]  # behaviour log-probs of the ids, nats
  finish: str  # 'stop': by an end of turn; 'length': at max_tokens
  text: str  # without the end of turn; '' if there is no tokenizer


class Policy:
  """A language model: samples messages, and scores tokens.

    policy = Policy.load('runs/oprl')
    policy.generate('#####', max_tokens=2)
    samples = policy.sample(['3 4 + 2 =', '1 + 1 ='], n=8)
    policy.logp([x.prompt for x in samples], [x.ids for x in samples])

  To train it, differentiate `forward`, a pure function of the parameters, and
  set `params` to the new ones. Those of `run.policy` follow the run.
  """

  def __init__(
    self,
    shape: transformer.DecoderConfig,
    params: PyTree,
    *,
    eot: int,
    tokenizer: Tokenizer | None = None,
    chat: chat_format.ChatFormat | None = None,
  ):
    """Holds a policy; `load` and `init` make one.

    Args:
      eot: id of the token that ends a message
      tokenizer: of texts; None: prompts are token ids
      chat: how messages become tokens; None: they are refused
    """
    self.shape, self.tokenizer, self.eot = shape, tokenizer, eot
    self._chat = chat
    self._lock = threading.Lock()  # of the engine
    self._params: PyTree = None
    self.params = params

  @property
  def params(self) -> PyTree:
    """The parameters, which may be set to others of the same shapes."""
    return self._params

  @params.setter
  def params(self, params: PyTree) -> None:
    if self._params is not None:
      _check_shapes(self._params, params)
    self._params = params
    # None frees its copy and its cache.
    self._engine: tuple[Engine, PyTree] | None = None
    self._room = Sizes(slots=1, capacity=1)

  @classmethod
  def load(cls, source: str | os.PathLike[str], *, dtype: str = '') -> 'Policy':
    """Loads a run's newest policy, or a checkpoint with its chat template.

    Args:
      source: folder of a run; or a checkpoint: a folder in Hugging Face's
        format, a GGUF file, a name on the hub, or 'smollm2'
      dtype: of the computation, 'float32' or 'bfloat16'; '': the run's own, and
        float32 of a checkpoint. Parameters are float32.
    Raises: ValueError, one sentence, if there is none.
    """
    if isinstance(source, os.PathLike):
      source = os.fspath(source)
    Path(empty=False).check('source', source)
    if workdir_lib.is_run(source):
      c = workdir_lib.read_config(source)
      words, shape, chat = pretrained.language(c)
      shape = dataclasses.replace(shape, dtype=dtype or shape.dtype)
      params = weights.policy(shape, source)
      bare = chat_format.bare(words)  # as the run was trained
    else:
      of = Config(model=ModelConfig(path=source, dtype=dtype or 'float32'))
      words, shape, chat = pretrained.language(of)
      params, bare = pretrained.weights(of, shape), None
    talk = chat_format.framed(chat) if chat else bare
    return cls(shape, params, eot=words.eot, tokenizer=words, chat=talk)

  @classmethod
  def init(cls, *, eot: int, seed: int = 0, **sizes: Any) -> 'Policy':
    """Draws a decoder at random, for prompts of token ids.

    Args:
      eot: id of the token that ends a message
      sizes: vocab, width, layers, heads, kv_heads, head_dim, mlp and the other
        fields of nn.config.DecoderConfig
    Raises: ValueError, one sentence, for a value that cannot be.
    """
    SEED.check('seed', seed)
    for name in ('vocab', 'width', 'layers', 'heads', 'kv_heads', 'mlp'):
      COUNT.check(name, sizes.get(name))
    Whole(0, sizes['vocab'] - 1).check('eot', eot)
    shape = transformer.DecoderConfig(**sizes)
    params = mesh.init(transformer.specs(shape), jax.random.key(seed))
    return cls(shape, params, eot=eot)

  def generate(
    self,
    prompt: Prompt,
    *,
    max_tokens: int = 64,
    temperature: float = 1.0,
    seed: int = 0,
  ) -> str:
    """Writes the message after a prompt; temperature 0 takes likeliest tokens.

    Args:
      prompt: a text, or messages [{'role': 'user', 'content': '...'}] for the
        chat template
    Raises: as `sample`.
    """
    (only,) = self.sample(
      [prompt], max_tokens=max_tokens, temperature=temperature, seed=seed
    )
    return only.text

  def sample(
    self,
    prompts: Sequence[Prompt],
    *,
    n: int = 1,
    max_tokens: int = 64,
    temperature: float = 1.0,
    seed: int = 0,
    slots: int = SLOTS,
  ) -> list[Sample]:
    """Samples n messages after each prompt, in the order of the prompts.

    A message depends on the seed, its prompt, the parameters and how many
    messages before it have an equal prompt; not on the other prompts.

    Args:
      max_tokens: of a message, at most, its end of turn included
      temperature: of sampling; 0: the likeliest tokens, of log-prob 0
      slots: messages sampled at a time; more take more memory
    Raises: ValueError, one sentence, for a prompt that is empty or longer than
      the model has positions for, and for counts below 1.
    """
    for name, x in (('n', n), ('max_tokens', max_tokens), ('slots', slots)):
      COUNT.check(name, x)
    if temperature != 0:
      TEMPERATURE.check('temperature', temperature)
    SEED.check('seed', seed)
    contexts = [x for x in self._contexts(prompts) for _ in range(n)]
    for i, ids in enumerate(contexts):
      self._check_room(f'prompts[{i // n}]', len(ids), max_tokens)
    met = collections.Counter[tuple[int, ...]]()
    requests = []
    for ids in contexts:
      key = keys.message_key(seed, ids, met[tuple(ids)])
      met[tuple(ids)] += 1
      requests.append((ids, SamplingParams(key, max_tokens, temperature)))
    with self._lock:
      done = self._complete(requests, slots)
    return [
      Sample(
        prompt=ids,
        ids=x.ids,
        logp=x.logp,
        finish='stop' if x.ids[-1] == self.eot else 'length',
        text=self._text(x.ids),
      )
      for ids, x in zip(contexts, done, strict=True)
    ]

  def logp(
    self,
    prompts: Sequence[Prompt],
    messages: Sequence[str | Sequence[int]],
    *,
    temperature: float = 1.0,
  ) -> list[np.ndarray]:
    """Returns the log-probs of each message's tokens after its prompt, nats.

    With the temperature of sampling they are those of `sample`. A loss
    differentiates `forward`.

    Args:
      messages: token ids, or texts, which get no end of turn
    Raises: ValueError, one sentence, as `sample` and for empty messages.
    """
    TEMPERATURE.check('temperature', temperature)
    contexts = self._contexts(prompts)
    messages = _listed('messages', messages)
    if len(messages) != len(contexts):
      raise ValueError(
        f'messages must be one for each of {len(contexts)} prompts, got'
        f' {len(messages)}'
      )
    written = [
      self._ids(f'messages[{i}]', x, specials=False)
      for i, x in enumerate(messages)
    ]
    for i, (ids, more) in enumerate(zip(contexts, written, strict=True)):
      self._check_room(f'prompts[{i}]', len(ids), len(more))
    score = _scorer(self.shape, temperature)
    out = []
    for i in range(0, len(written), _ROWS):
      some = slice(i, i + _ROWS)
      rows = _rows(contexts[some], written[some], self.shape.positions)
      values = np.asarray(score(self.params, rows))
      out += [
        values[j, len(ids) : len(ids) + len(more)]
        for j, (ids, more) in enumerate(
          zip(contexts[some], written[some], strict=True)
        )
      ]
    return out

  def forward(
    self,
    params: PyTree,
    rows: Rows,
    needs: tuple[str, ...] = ('logp',),
    *,
    temperature: float = 1.0,
  ) -> Outputs:
    """Computes outputs [N, T] of the rows of a batch; pure, for `jax.grad`.

    Args:
      params: such as `self.params`
      rows: of `Batch.from_turns`
      needs: fields of Outputs: 'logp', 'entropy', 'sum_sq_prob', 'hidden'
    """
    return model_policy.module(self.shape, temperature).apply(
      params, rows, needs
    )

  def _contexts(self, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Encodes prompts; ValueError for one prompt in place of several."""
    prompts = _listed('prompts', prompts)
    if isinstance(prompts, str | bytes | Mapping) or any(
      isinstance(x, Mapping | int | np.integer) for x in prompts
    ):
      raise ValueError(
        f'prompts must be a list of prompts, got the one {prompts!r:.60}; write'
        ' [prompt]'
      )
    return [
      self._ids(f'prompts[{i}]', x, specials=True)
      for i, x in enumerate(prompts)
    ]

  def _ids(self, where: str, x: Any, *, specials: bool) -> list[int]:
    """Encodes a text or messages; checks token ids."""
    if isinstance(x, str):
      ids = self._words(where, x).encode(x, specials=specials)
    elif isinstance(x, Sequence) and any(isinstance(m, Mapping) for m in x):
      ids = list(self._talk(where, x).start(_messages(where, x)).ids)
    else:
      ids = _integers(where, x, self.shape.vocab)
    if not ids:
      raise ValueError(f'{where} must have at least one token, got {x!r}')
    return ids

  def _words(self, where: str, x: Any) -> Tokenizer:
    if self.tokenizer is None:
      raise ValueError(
        f'{where} must be token ids, since this policy has no tokenizer, got'
        f' {x!r:.60}'
      )
    return self.tokenizer

  def _talk(self, where: str, x: Any) -> chat_format.ChatFormat:
    words = self._words(where, x)
    if self._chat is None:
      raise ValueError(
        f'{where} must be a text, since tokenizer {words.name} has no chat'
        f' template, got messages {x!r:.60}'
      )
    return self._chat

  def _text(self, ids: Sequence[int]) -> str:
    return chat_format.content(self.tokenizer, ids) if self.tokenizer else ''

  def _check_room(self, where: str, context: int, message: int) -> None:
    most = self.shape.positions
    if most and context + message > most:
      raise ValueError(
        f'{where} of {context} tokens and a message of up to {message} must fit'
        f' the {most} positions of the model; shorten one'
      )

  def _complete(self, requests: Sequence[tuple], slots: int) -> list:
    """Returns the completion of each (context, SamplingParams)."""
    if not requests:
      return []
    most = max(len(ids) + how.budget for ids, how in requests)
    engine = self._engine_for(min(slots, len(requests)), most)
    done: dict[int, Any] = {}
    try:
      for i, (ids, how) in enumerate(requests):
        engine.submit(i, ids, how)
      while len(done) < len(requests):
        engine.dispatch()
        for x in engine.collect():
          engine.cancel(x.sequence)
          done[x.sequence] = x
    except BaseException:  # interrupted anywhere, also within the engine
      self._engine = None
      raise
    return [done[i] for i in range(len(requests))]

  def _engine_for(self, slots: int, capacity: int) -> Engine:
    """Returns an engine with so much room; the last one if it has it."""
    shards = mesh.axis_size('batch')
    room, params = self._room, self._params
    fits = room.slots >= slots and room.capacity >= capacity
    made, of = self._engine or (None, None)
    # Parameters may be set by another thread while an engine is made.
    if made is None or of is not params or not fits or room.slots % shards:
      rounded = 1 << (slots - 1).bit_length()
      room = self._room = Sizes(
        slots=-(-rounded // shards) * shards,
        capacity=_rounded(capacity, self.shape.positions),
      )
      self._engine = made = None  # frees its cache before there is another
      made = Engine(self.shape, room, eot=self.eot)
      made.update_weights(params, 0)
      self._engine = made, params
    return made


def _check_shapes(before: PyTree, params: PyTree) -> None:
  """Raises ValueError, one sentence, for parameters of other shapes."""
  shapes = lambda tree: {  # noqa: E731
    jax.tree_util.keystr(path): np.shape(x)
    for path, x in jax.tree_util.tree_leaves_with_path(tree)
  }
  was, now = shapes(before), shapes(params)
  for name in {**was, **now}:
    if was.get(name) != now.get(name):
      raise ValueError(
        f'params{name} must keep its shape {was.get(name)}, got {now.get(name)}'
      )


def _rounded(tokens: int, positions: int) -> int:
  """Rounds up to few sizes, within the positions of the model (0: any)."""
  size = -(-tokens // _MULTIPLE) * _MULTIPLE
  return min(size, positions) if positions else size


def _messages(where: str, x: Sequence[Any]) -> list[Message]:
  """Reads chat messages; ValueError for what is none."""
  out = []
  for message in x:
    fields = message if isinstance(message, Mapping) else {}
    role, content = fields.get('role'), fields.get('content')
    if not (isinstance(role, str) and isinstance(content, str)):
      raise ValueError(
        f"{where} must be messages {{'role': ..., 'content': ...}} of texts,"
        f' got {message!r:.60}'
      )
    out.append(Message(role, content))
  return out


def _listed(where: str, x: Any) -> Any:
  """Returns a list of what can be read only once; ValueError for no list."""
  try:
    return x if isinstance(x, Sized) else list(x)
  except TypeError as error:
    raise ValueError(f'{where} must be a list, got {x!r:.60}') from error


def _integers(where: str, x: Any, vocab: int) -> list[int]:
  """Reads token ids; ValueError for what is none."""
  try:
    if isinstance(x, bytes | Set | Mapping):
      raise TypeError(f'a {type(x).__name__}')
    ids = [operator.index(i) for i in x]
    if wrong := [i for i in ids if not 0 <= i < vocab]:
      raise ValueError(f'id {wrong[0]}')
  except (TypeError, ValueError) as error:
    raise ValueError(
      f'{where} must be a text, messages or token ids in [0, {vocab}), got'
      f' {x!r:.60} ({error})'
    ) from error
  return ids


def _rows(
  contexts: Sequence[list[int]], messages: Sequence[list[int]], positions: int
) -> Rows:
  """Lays each message behind its context, in rows of few widths."""
  n = len(messages)
  batch = Batch.from_turns(
    [[ids] for ids in messages],
    [[[0.0] * len(ids)] for ids in messages],
    reward=[[0.0]] * n,
    group=[0] * n,
    context=[[ids] for ids in contexts],
  )
  width = batch.rows.tokens.shape[1]
  more = _rounded(width, positions) - width
  empty = dict.fromkeys(('seg', 'traj', 'turn'), -1)
  return Rows(
    **{
      name: jnp.pad(x, ((0, 0), (0, more)), constant_values=empty.get(name, 0))
      for name, x in vars(batch.rows).items()
    }
  )


@functools.lru_cache(maxsize=8)
def _scorer(shape: transformer.DecoderConfig, temperature: float):
  """Compiles (params, rows) -> log-probs [N, T]."""
  apply = model_policy.module(shape, temperature).apply

  def score(params: PyTree, rows: Rows) -> Array:
    return apply(params, rows, ('logp',)).logp

  return jax.jit(score)
