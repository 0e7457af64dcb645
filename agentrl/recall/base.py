"""What recall components choose from, and the text that attempts read.

A component of the slot 'recall' is a function

  (inputs, *, hp) -> [G, k] i64        entries, -1: none; host arrays

of the bank as the policy version that samples has it, and of the tasks that are
attempted. All members of a group read the same entries, so that they compare
alike. What is drawn depends on (seed, step) alone.

Hyper-parameters that every component but `none` has:

  k        entries that an attempt reads, at most
  tokens   of all that it reads, at most
  heading  line before them
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl import registry
from agentrl.memory.texts import TextBank
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Attempts, Notes

DIMENSIONS = 256  # of a sketch
NOTE_MATCH = 'note_match'  # term of turns that choose, see `recall.observed`
# When entries are chosen by what is observed or asked.
EVERY = TURN, EPISODE, ASKED = 'turn', 'episode', 'asked'


class RecallInputs(NamedTuple):
  """What a recall component chooses by, host arrays."""

  bank: TextBank
  task: np.ndarray  # [G] i32  index of the task that each group attempts
  sketch: np.ndarray  # [n, D] f32  of every task
  seed: int
  step: int  # of RL; -1: an evaluation
  likeness: np.ndarray | None = None  # [G, C] to entries; None: of their tasks

  def similarity(self) -> np.ndarray:
    """Returns cosines of attempted tasks and entries' tasks: [G, C] f32.

    Or of what is observed or asked and entries, where that chooses them.
    """
    if self.likeness is not None:
      return self.likeness
    every = self.sketch[self.task] @ self.sketch.T
    return every[:, np.maximum(self.bank.task, 0)]


class Recall(NamedTuple):
  """Settings that every component has, of a config's own."""

  k: int
  tokens: int
  heading: str
  every: str = ''  # one of EVERY; '': before attempts begin

  @property
  def again(self) -> bool:
    """Whether turns behind the first one choose entries, too."""
    return self.every in (TURN, ASKED)


def of(spec: registry.MethodSpec) -> Recall | None:
  """Returns the settings of a method's recall; None: nothing is read."""
  if not spec.recall:
    return None
  piece = registry.get('recall', spec.recall, 'c.recall')
  values = registry.settings(piece, spec.values('recall', spec.recall))
  if 'k' not in values:
    return None
  every = values.get('every', '')
  return Recall(values['k'], values['tokens'], values['heading'], every)


def memories(spec: registry.MethodSpec) -> tuple[str, ...]:
  """Returns the names of the memories that a method's recall reads."""
  if not spec.recall:
    return ()
  needs = registry.needs(spec, 'recall', 'recall', spec.recall)
  kind = 'memory:'
  return tuple(x.removeprefix(kind) for x in needs if x.startswith(kind))


def writer(spec: registry.MethodSpec) -> dict[str, Any]:
  """Returns the settings of the memory that a service writes to; {}: none."""
  name = told(spec)
  if not name:
    return {}
  piece = registry.get('memory', name)
  return registry.settings(piece, spec.values('memory', name))


def told(spec: registry.MethodSpec) -> str:
  """Returns the memory that a service writes to, read or not; '': none."""
  for name in spec.memory:
    piece = registry.get('memory', name)
    values = registry.settings(piece, spec.values('memory', name))
    if values.get('service'):
      return name
  return ''


def sketches(texts: Sequence[Sequence[int]], fitted: int) -> np.ndarray:
  """Sketches texts by their unigrams and bigrams, hashed: [n, D] f32.

    s_d = sum over n-grams g with h(g) = d of sign(g) log(1 + n_g) idf_g
    idf_g = log((1 + N) / (1 + df_g)),     s / |s|

  so that the inner product of two is the cosine of their weighted n-grams, up
  to collisions. A text without a known rare n-gram is 0, and like nothing.

  Args:
    texts: token ids or any whole numbers >= 0
    fitted: N, document frequencies are of the first N texts: those to train on
  """
  every_gram = [grams(text) for text in texts]
  known = [np.unique(x) for x in every_gram[:fitted]]
  every, count = np.unique(
    np.concatenate([np.zeros(0, np.uint64), *known]), return_counts=True
  )
  out = np.zeros((len(texts), DIMENSIONS), np.float32)
  for row, x in zip(out, every_gram, strict=True):
    gram, n = np.unique(x, return_counts=True)
    at = np.minimum(np.searchsorted(every, gram), max(every.size - 1, 0))
    found = every[at] == gram if every.size else np.zeros(gram.size, bool)
    df = np.where(found, count[at], 0) if every.size else np.zeros(gram.size)
    weight = np.log1p(n) * np.log((1 + fitted) / (1 + df))
    sign = np.where(gram >> np.uint64(63), 1, -1)
    np.add.at(row, (gram % np.uint64(DIMENSIONS)).astype(int), sign * weight)
  size = np.linalg.norm(out, axis=1, keepdims=True)
  return out / np.where(size > 0, size, 1)


def grams(text: Sequence[int]) -> np.ndarray:
  """Returns hashes of the unigrams and bigrams of a text, u64."""
  ids = np.asarray(text, np.uint64) + np.uint64(1)
  pairs = ids[:-1] * np.uint64(1 << 32) + ids[1:]
  return _mixed(np.concatenate([ids, pairs]))


def _mixed(x: np.ndarray) -> np.ndarray:
  """Mixes 64-bit words: the finalizer of SplitMix64."""
  x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
  x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
  return x ^ (x >> np.uint64(31))


def entry_of(bank: TextBank, i: int) -> np.ndarray:
  """Returns the tokens of an entry of a bank on the host."""
  return np.asarray(bank.tokens[i, : bank.length[i]])


def readable(
  tokenizer: Tokenizer, ids: np.ndarray, specials: Collection[int]
) -> list[int]:
  """Returns the tokens of an entry as a line that holds no control token."""
  line = tokenizer.encode('\n')
  text = [int(i) for i in ids if i == tokenizer.eot or int(i) not in specials]
  text = [y for i in text for y in (line if i == tokenizer.eot else (i,))]
  return text if text[-len(line) :] == line else [*text, *line]


def noted(
  attempts: Attempts,
  chosen: np.ndarray,
  bank: TextBank,
  recall: Recall,
  tokenizer: Tokenizer,
) -> Attempts:
  """Returns the attempts with what they read.

    heading, newline, entry, newline, entry, newline

  Entries stand whole or, the last one, cut where there is room for no more.

  Args:
    chosen: [G, k], of the groups in their order in `attempts`
    bank: host arrays
  """
  groups, of_group = np.unique(np.asarray(attempts.group), return_inverse=True)
  tokens = np.full((len(groups), recall.tokens), tokenizer.pad, np.int32)
  length = np.zeros(len(groups), np.int32)
  for g, entries in enumerate(chosen):
    text = read(entries, bank, recall, tokenizer)
    tokens[g, : len(text)], length[g] = text, len(text)
  at = np.maximum(chosen, 0)
  written = np.where(chosen >= 0, bank.written[at], -1)
  of_groups: dict[str, Any] = {
    'tokens': tokens,
    'length': length,
    'entry': chosen.astype(np.int32),
    'written': written.astype(np.int32),
  }
  each = {name: x[of_group] for name, x in of_groups.items()}
  return attempts.replace(notes=Notes(**each))


def read(
  entries: np.ndarray, bank: TextBank, recall: Recall, tokenizer: Tokenizer
) -> list[int]:
  """Returns the tokens of entries behind the heading; [] without any.

  Args:
    entries: [k], -1: none
    bank: host arrays
  """
  head = tokenizer.encode(f'{recall.heading}\n') if recall.heading else []
  own = {*tokenizer.specials().values(), tokenizer.pad}
  text = []
  for i in entries[entries >= 0]:
    text += readable(tokenizer, entry_of(bank, i), own)
  return [*head, *text][: recall.tokens] if text else []


def nothing(recall: Recall, n: int) -> Notes:
  """Returns the notes of n attempts that read nothing."""
  unread: Any = np.full((n, recall.k), -1, np.int32)
  tokens: Any = np.zeros((n, recall.tokens), np.int32)
  return Notes(tokens, tokens[:, 0] * 0, unread, unread)


def text_of(
  notes: Notes | None, b: int, tokenizer: Tokenizer, most: int
) -> str:
  """Returns what attempt b reads, as text of `most` tokens at most.

  It is content, wherever it stands: a control token's literal is text.
  """
  if notes is None or not most:
    return ''
  ids = np.asarray(notes.tokens[b, : notes.length[b]])
  return decoded(ids.tolist(), tokenizer, most)


def decoded(ids: Sequence[int], tokenizer: Tokenizer, most: int) -> str:
  """Returns tokens as text of `most` tokens at most."""
  text = tokenizer.decode(ids)
  while len(tokenizer.encode(text)) > most:
    text = text[:-1]  # it encodes otherwise than it was sampled
  return text
