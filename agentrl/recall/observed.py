"""Recall by what is observed or asked: entries that say something of it.

Before a turn is asked for, on hosts, the entries of a bank are compared with
the observation that it answers, by their own texts, or with what the message
before it has asked (`env.asking`). What is read stands before that observation,
in the prompt of the turn and in its row.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from agentrl import domain, registry
from agentrl.memory.texts import TextBank, score
from agentrl.recall import base, retrieval
from agentrl.recall.base import NOTE_MATCH, Recall, RecallInputs
from agentrl.recall.retrieval import Arm, Heading, Likeness
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import NOTE, NOTE_WRITTEN

_LONGEST = 10_000  # characters that are read of what is asked


@registry.register(
  'recall',
  needs=('memory:texts',),
  gives=(f'term:{NOTE_MATCH}',),
  metrics=retrieval.measure,
)
def observed(
  x: RecallInputs,
  *,
  k: domain.Count = 1,
  tokens: domain.Count = 64,
  heading: Heading = 'Notes:',
  least: Likeness = 0.1,
  floor: domain.Rate = 0.0,
  every: Annotated[str, domain.OneOf(*base.EVERY)] = 'turn',
  arm: Arm = 'own',
) -> np.ndarray:
  """Reads at every turn the entries most like what is observed.

    top k of cos(observation, entry) over entries with
      cos >= least and (decisive + 1) / (read + 2) >= floor

  of the n-grams of both texts. The step-level retrieval of SLEA-RL
  (2603.18079), whose likeness is one of embeddings. With every='asked' the
  agent searches by itself, as in EvolveR (2510.16079):

    top k of cos(query, entry),   nothing where nothing was asked

  The term `note_match` is what a turn adds to the best match so far, so that
  over a trajectory it sums to the best of all that was read:

    m_t = max over entries read before turn t of score * cos
    note_match_t = max(m_t - max over s < t of m_s, 0),   m = 0 where none was

  Args:
    k: entries that a turn reads, at most
    tokens: of all that it reads, at most
    heading: line before them; '': none
    least: likeness below which an entry is not read
    floor: score below which an entry is not read
    every: 'turn'; or 'asked', a turn that follows a message that asks, by
      what it asks alone; or 'episode', a baseline: those of the first
      observation stand where they would with other components
    arm: as of `nearest`
  """
  del tokens, heading, every  # of what is made of it
  return retrieval.nearest(x, k=k, least=least, floor=floor, arm=arm)


class Recollection(NamedTuple):
  """What is read before an observation."""

  text: str  # '': nothing
  entry: tuple[int, ...]  # [k], -1: none
  written: tuple[int, ...]  # step at which each was written
  match: float = 0.0  # the largest score times likeness among entries

  @property
  def columns(self) -> dict[str, float]:
    """Info values of the turn."""
    out = {}
    for i, (entry, step) in enumerate(
      zip(self.entry, self.written, strict=True)
    ):
      out |= {f'{NOTE}{i}': float(entry), f'{NOTE_WRITTEN}{i}': float(step)}
    return out


def columns(recall: Recall) -> tuple[str, ...]:
  """Names the info values of turns that read; () where attempts do."""
  if not recall.every:
    return ()
  read = (f'{x}{i}' for i in range(recall.k) for x in (NOTE, NOTE_WRITTEN))
  return (*read, NOTE_MATCH)


class Reader(NamedTuple):
  """How turns read a bank."""

  recall: Recall
  choose: Callable[[RecallInputs], np.ndarray]
  tokenizer: Tokenizer
  seed: int
  # Message -> what it asks, '': nothing. None: observations choose.
  asked: Callable[[str], str] | None = None


def opened(reader: Reader | None, bank: TextBank | None) -> 'Library | None':
  """Opens a bank for turns that read; None where none do."""
  return Library(reader, bank) if reader and bank is not None else None


class Library:
  """The entries of a bank, host arrays, by what they say."""

  def __init__(self, reader: Reader, bank: TextBank):
    texts = [base.entry_of(bank, i).tolist() for i in range(len(bank.length))]
    self._index = Index(texts)
    self._bank, self._reader = bank, reader
    none = (-1,) * reader.recall.k
    self._nothing = Recollection('', none, none)
    self._known: dict[str, Recollection] = {}  # by what chooses

  @property
  def again(self) -> bool:
    """Whether turns behind the first one read, too."""
    return self._reader.recall.again

  def read(self, observation: str, message: str = '') -> Recollection:
    """Returns what is read before an observation.

    Args:
      message: that it answers; '': none
    """
    asked, by = self._reader.asked, observation
    if asked is not None:
      by = asked(message)[:_LONGEST]
      if not by:
        return self._nothing
    if by not in self._known:
      self._known[by] = self._read(by)
    return self._known[by]

  def _read(self, by: str) -> Recollection:
    """Reads the entries most like a text."""
    recall, choose, words, seed, _ = self._reader
    bank, no_task = self._bank, np.full(1, -1)
    likeness = self._index.likeness(words.encode(by))
    x = RecallInputs(
      bank=bank,
      task=no_task,
      sketch=np.zeros((0, 0), np.float32),
      seed=seed,
      step=0,
      likeness=likeness[None],
    )
    (chosen,) = choose(x)
    ids = base.read(chosen, bank, recall, words)
    text = base.decoded(ids, words, recall.tokens)
    written = np.where(chosen >= 0, bank.written[np.maximum(chosen, 0)], -1)
    match = (score(bank) * likeness)[chosen[chosen >= 0]]
    return Recollection(
      text=text,
      entry=tuple(chosen.tolist()),
      written=tuple(written.tolist()),
      match=float(np.max(match, initial=0.0)),
    )


class Index:
  """Texts by their unigrams and bigrams.

    w_g = log(1 + n_g) log((2 + N) / (1 + df_g))

  of N texts, df_g of which have n-gram g: one that all have counts a little.
  """

  def __init__(self, texts: Sequence[Sequence[int]]):
    self._texts = len(texts)
    found = [np.unique(base.grams(x), return_counts=True) for x in texts]
    none = np.zeros(0, np.uint64)
    gram = np.concatenate([none, *(x for x, _ in found)])
    n = np.concatenate([none, *(x for _, x in found)])
    row = np.repeat(np.arange(len(texts)), [x.size for x, _ in found])
    self._gram, at, df = np.unique(
      gram, return_inverse=True, return_counts=True
    )
    order = np.argsort(at, kind='stable')
    self._begin = np.concatenate([[0], np.cumsum(df)])
    weight = np.log1p(n) * self._rarity(df)[at]  # of each gram of each text
    norm = np.sqrt(np.bincount(row, weight**2, len(texts)))
    self._row, self._weight = row[order], (weight / norm[row])[order]

  def _rarity(self, df: np.ndarray) -> np.ndarray:
    return np.log((2 + self._texts) / (1 + df))

  def likeness(self, text: Sequence[int]) -> np.ndarray:
    """Computes the cosine of a text with each of the index: [N] f64."""
    gram, n = np.unique(base.grams(text), return_counts=True)
    at = np.searchsorted(self._gram, gram)
    df, out = np.zeros(gram.size, int), np.zeros(self._texts)
    places = []
    for i, (g, j) in enumerate(zip(gram, at, strict=True)):
      if j < self._gram.size and self._gram[j] == g:
        begin, end = self._begin[j : j + 2]
        df[i] = end - begin
        places.append((i, slice(begin, end)))
    weight = np.log1p(n) * self._rarity(df)
    weight /= np.linalg.norm(weight) or 1
    for i, place in places:
      out[self._row[place]] += weight[i] * self._weight[place]
    return out
