"""Compares other libraries with ours, interleaved, at the size `sampling.FULL`.

Each has a script that prints JSON objects, run by a Python that has the
library: its own process, its own threads.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np


class Peer(NamedTuple):
  """A library, and where its script prints what our case is compared with.

  tokens: new tokens per second, with their prefill
  step: seconds of a whole GRPO iteration
  """

  script: str
  args: tuple[str, ...]
  tokens: str
  step: str
  note: str


PEERS = {
  'tunix': Peer(
    'bench_tunix.py',
    ('--cache', '0'),
    'end_to_end_tokens_per_s',
    'full_step_s_median_after_2',
    'its iteration also reads a reference model',
  ),
  'trl': Peer(
    'bench_trl.py',
    ('--threads', str(os.cpu_count())),
    'decode_tok_s_incl_prefill',
    'grpo_step_s_median_after_first',
    'its decode returns no log-probs; no reference model',
  ),
}


def missing(folder: str, pythons: Mapping[str, str]) -> dict[str, str]:
  """{peer: why it is skipped}, one sentence each."""
  out = {}
  for name, peer in PEERS.items():
    path = os.path.join(folder, peer.script)
    if not pythons[name]:
      out[name] = (
        f'{name} is skipped: --{name}_python is not given; name a Python that'
        f' has {name}'
      )
    elif not os.path.exists(pythons[name]):
      out[name] = (
        f'{name} is skipped: --{name}_python={pythons[name]} does not exist'
      )
    elif not os.path.exists(path):
      out[name] = (
        f'{name} is skipped: {path} does not exist; set --peers to the folder'
        f' that holds {peer.script}'
      )
  return out


def compare(
  folder: str,
  pythons: Mapping[str, str],
  ours: Callable[[], tuple[float, float]],
  rounds: int,
  tell: Callable[[str], None] = print,
) -> dict[str, dict]:
  """Ours, each peer, ours, each peer...: {peer: {what: measured}}.

  Args:
    pythons: {peer: path of its Python}
    ours: () -> (tokens per second, seconds of an iteration)
  Returns: for 'decode' and 'iteration', the lists `ours` and `theirs` over
    the rounds, and `faster`: how many times faster ours was, median, lowest
    and highest of the rounds
  """
  skipped = missing(folder, pythons)
  for sentence in skipped.values():
    tell(sentence)
  names = [name for name in PEERS if name not in skipped]
  seen = {name: [] for name in names}
  for i in range(rounds if names else 0):
    own = ours()
    for name in names:
      path = os.path.join(folder, PEERS[name].script)
      result = run([pythons[name], path, *PEERS[name].args])
      if result is None:
        tell(f'{name} failed in this round; run {path} by itself to see why')
        continue
      values = result[PEERS[name].tokens], result[PEERS[name].step]
      seen[name].append((*own, *values))
      tell(
        f'round {i + 1}: decode {own[0]:.4g} tokens/s, {name} {values[0]:.4g};'
        f' iteration {own[1]:.4g} s, {name} {values[1]:.4g} s'
      )
  out = {}
  for name, rows in seen.items():
    if rows:
      tokens, step, their_tokens, their_step = np.array(rows).T
      out[name] = {
        'decode': _faster(tokens, their_tokens, tokens / their_tokens),
        'iteration': _faster(step, their_step, their_step / step),
      }
  return out


def _faster(ours, theirs, ratio) -> dict:
  low, median, high = np.quantile(ratio, (0, 0.5, 1)).tolist()
  faster = {'median': median, 'low': low, 'high': high}
  return {'ours': ours.tolist(), 'theirs': theirs.tolist(), 'faster': faster}


def run(command: list[str]) -> dict | None:
  """Runs a script and merges the JSON objects it prints; None if it fails."""
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode:
    sys.stderr.write(done.stderr[-2000:])
    return None
  out: dict = {}
  for one in objects(done.stdout):
    out |= one
  return out


def objects(text: str) -> Iterator[dict]:
  """JSON objects that begin a line of the text; all else is passed over."""
  decoder, at = json.JSONDecoder(), 0
  while at < len(text):
    if text[at] == '{':
      try:
        one, at = decoder.raw_decode(text, at)
        yield one
      except json.JSONDecodeError:
        pass
    newline = text.find('\n', at)
    at = len(text) if newline < 0 else newline + 1


def table(measured: Mapping[str, dict]) -> list[str]:
  """Lines to print."""
  lines = []
  units = {'decode': 'tokens/s', 'iteration': 's'}
  for name, kinds in measured.items():
    for what, x in kinds.items():
      f, unit = x['faster'], units[what]
      lines.append(
        f'{what:<10} {f["median"]:.2f} times {name}'
        f' [{f["low"]:.2f}, {f["high"]:.2f}] over {len(x["ours"])} round(s);'
        f' ours {np.median(x["ours"]):.4g} {unit},'
        f' {name} {np.median(x["theirs"]):.4g} {unit}'
      )
    lines.append(f'           ({name}: {PEERS[name].note})')
  return lines
