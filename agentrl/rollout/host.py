"""Rollouts of host environments: many episodes, each a small state machine.

  reset ─► generate ─► step ─► generate ─► step ─► ... ─► end

Environments step while the engine generates for others. What trajectory b
samples depends on its key and its index only, as in rollouts inside jit, and
is stored in the same `Record`.
"""

import functools
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from absl import logging

from agentrl.env import base
from agentrl.env.splits import state_of
from agentrl.recall import base as recall
from agentrl.recall import observed
from agentrl.rollout import message_spans, pack
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.compaction import SUMMARY, demonstrated
from agentrl.rollout.edits import EDIT, READ, Edit, Standing
from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)
from agentrl.rollout.engine.generator import Generator
from agentrl.rollout.episode import OpenEpisode
from agentrl.rollout.pack import TurnData
from agentrl.rollout.workers.pool import EnvError, EnvWorker
from agentrl.text import context_edits
from agentrl.text.chat_template import Conversation, Message
from agentrl.types import Attempts, Span, Status

CUT = ' (cut)'  # behind an observation that was longer than may be


def run_episodes(
  stage: HostEnvBundle,
  generator: Generator,
  workers: Sequence[EnvWorker],
  attempts: Attempts,
  key: jax.Array,
  *,
  indices: Sequence[int] | None = None,
  stopping: Callable[[], None] = lambda: None,
  ended: Callable[[int, pack.Episode], None] = lambda attempt, episode: None,
  drawn: pack.Drawn | None = None,
  kind: type['EpisodeLoop'] | None = None,
) -> tuple[list[pack.Episode], dict[str, int]]:
  """Runs attempts to their end.

  Args:
    workers: as many episodes are under way at a time
    key: of this iteration, as in rollout/jit.py
    indices: indices of the attempts to run; all of them if None
    stopping: called between rounds; what it raises ends the run
    ended: called with each attempt and its trajectory, as soon as it has ended
    drawn: in place of what the key and a prefix say
    kind: of loop; None: each attempt has an environment to itself
  Returns: a trajectory for each attempt, without turns where it has a limit of
    none; counts: 'fault/<kind>', 'cut' observations
  """
  indices = range(len(attempts.task)) if indices is None else indices
  drawn = drawn or pack.drawn(attempts, key, stage.limits)
  kind = kind or EpisodeLoop
  loop = kind(stage, generator, workers, attempts, drawn, indices, ended)
  return loop.run(stopping)


class EpisodeLoop:
  """Episodes under way, a worker for each; `rollout.host_seats` has matches."""

  def __init__(
    self, stage, generator, workers, attempts: Attempts, drawn, indices, report
  ):
    self.stage, self.generator, self.indices = stage, generator, indices
    self.attempts = jax.device_get(attempts)
    self.library = observed.opened(stage.reader, self.attempts.texts)
    self.keys, self.seeds, self.given = drawn
    prefix, limit = attempts.prefix, self.attempts.limit
    self.forced = prefix is not None and prefix.forced
    self.waiting = iter([attempt for attempt in indices if limit[attempt] > 0])
    self.free = [workers[i] for i in reversed(range(len(workers)))]
    self.open: dict[int, OpenEpisode] = {}
    self.answers: queue.SimpleQueue = queue.SimpleQueue()
    nothing = pack.Episode((), Status.SCHEDULE, 0.0)
    self.ended = {
      attempt: nothing for attempt in indices if limit[attempt] <= 0
    }
    self.counts: dict[str, int] = {'cut': 0}
    self.report = report

  def run(self, stopping):
    try:
      self.begin()
      while self.open:
        stopping()
        self.generator.dispatch()
        self.drain_answers()
        for spoken in self.generator.collect():
          self.on_message(self.open[spoken.sequence], spoken)
        self.drain_answers()
        if not self.generator.busy and self.open:
          self.wait()
        self.check_timeouts()
    finally:
      for episode in self.open.values():
        episode.worker.end()
        self.generator.cancel(episode.attempt)
    return [self.ended[attempt] for attempt in self.indices], self.counts

  # Episodes begin and end.

  def begin(self) -> None:
    """Starts episodes in all free workers."""
    while self.free and (attempt := next(self.waiting, None)) is not None:
      self.reset(self.opening(attempt, self.free.pop()))

  def opening(self, attempt: int, worker: EnvWorker) -> OpenEpisode:
    """Opens an episode, which has heard nothing yet."""
    episode = OpenEpisode(attempt, worker, time.monotonic())
    self.open[attempt] = episode
    episode.room = self.stage.limits.room(int(self.attempts.task[attempt]))
    how = self.stage.talk.words, self.stage.limits.notes
    episode.note = recall.text_of(self.attempts.notes, attempt, *how)
    return episode

  def reset(self, episode: OpenEpisode) -> None:
    """Has the environment of an episode begin its task."""
    seed = int(self.seeds[episode.attempt])
    call = episode.worker.reset(self.task(episode), seed)
    self.await_reply(episode, call, self.stage.limits.start)

  def task(self, episode: OpenEpisode) -> Mapping[str, Any]:
    return self.stage.tasks[self.attempts.task[episode.attempt]]

  def end(
    self,
    episode: OpenEpisode,
    status: Status,
    score: float = 0.0,
    fault: str = '',
  ) -> None:
    """Ends an episode; its worker plays another one."""
    self.put_down(episode, pack.Episode(episode.turns, status, score, fault))
    self.release(episode.worker)

  def put_down(self, episode: OpenEpisode, ended: pack.Episode) -> None:
    """Writes down how an episode has ended."""
    self.ended[episode.attempt] = ended
    self.report(episode.attempt, ended)
    self.generator.cancel(episode.attempt)
    del self.open[episode.attempt]

  def release(self, worker: EnvWorker) -> None:
    worker.rest()
    self.free.append(worker)
    self.begin()

  def fail(self, episode: OpenEpisode, kind: str, text: str) -> None:
    """Ends the trajectory of an environment that failed, and no other."""
    name = f'fault/{kind}'
    self.counts[name] = self.counts.get(name, 0) + 1
    episode.worker.end()
    self.end(episode, Status.ENV_ERROR, fault=f'{kind}: {text}')

  # Results of environments.

  def await_reply(self, episode: OpenEpisode, call, seconds: float) -> None:
    episode.call, episode.allowed = call, seconds
    episode.until = time.monotonic() + seconds
    attempt = episode.attempt
    call.add_done_callback(lambda call: self.answers.put((attempt, call)))

  def wait(self) -> None:
    """Blocks until a worker answers or a deadline passes, a second at most."""
    called = [s.until for s in self.open.values() if s.call is not None]
    first = min(called) - time.monotonic()
    try:
      self.on_reply(*self.answers.get(timeout=min(max(0.0, first), 1.0)))
    except queue.Empty:
      return
    self.drain_answers()

  def drain_answers(self) -> None:
    while not self.answers.empty():
      self.on_reply(*self.answers.get())

  def on_reply(self, attempt: int, call) -> None:
    episode = self.open.get(attempt)
    if episode is None or episode.call is not call:
      return  # of an episode that has ended
    episode.call = None
    error = call.exception()
    if isinstance(error, EnvError):
      text = 'An environment failed (%s): %s'
      logging.log_first_n(logging.WARNING, text, 3, error.kind, error.text)
      self.fail(episode, error.kind, error.text)
    elif error is not None:
      raise error
    else:
      self.hear(episode, call.result())

  def hear(self, episode: OpenEpisode, reply: str | base.Step) -> None:
    """Goes on with what an environment has said."""
    if isinstance(reply, base.Step):
      self.on_step(episode, reply)
    else:
      self.request_message(episode, reply, 'user')

  def check_timeouts(self) -> None:
    """Ends episodes past their deadlines."""
    now = time.monotonic()
    for episode in list(self.open.values()):
      if episode.attempt not in self.open:  # its match has just ended
        continue
      if episode.worker.delayed:  # the environment has not got its call yet
        episode.until = now + episode.allowed
      if episode.call is not None and now > episode.until:
        self.fail(episode, 'timeout', 'it did not answer in time')
      elif now - episode.began > self.stage.limits.patience:
        episode.worker.end()
        self.end(episode, Status.TIME_LIMIT)

  def on_step(self, episode: OpenEpisode, reply: base.Step) -> None:
    """Records the result of a step; goes on or ends the episode."""
    last = episode.turns[-1]
    info = {**last.info, **reply.info}
    episode.turns[-1] = last._replace(
      reward=reply.reward, invalid=reply.invalid, info=info
    )
    episode.score = reply.score
    if reply.done:
      solved = reply.score > 0.5
      status = Status.SOLVED if solved else Status.FAILED
      self.end(episode, status, reply.score)
    elif not self.turns_left(episode):
      self.end_early(episode)
    else:
      self.request_message(episode, reply.text, reply.role)

  def limit(self, episode: OpenEpisode) -> int:
    """Returns the turns of an episode; demonstrated summaries come on top."""
    own = int(self.attempts.limit[episode.attempt])
    more = episode.compactions if self.stage.expert else 0
    return min(own + more, self.stage.limits.turns)

  def turns_left(self, episode: OpenEpisode) -> int:
    return max(self.limit(episode) - len(episode.turns), 0)

  def end_early(self, episode: OpenEpisode) -> None:
    cut = self.limit(episode) < self.stage.limits.turns
    status = Status.SCHEDULE if cut else Status.TURN_LIMIT
    self.end(episode, status, episode.score)

  # Messages of the agent.

  def request_message(self, episode: OpenEpisode, text: str, role: str) -> None:
    """Requests the next message if the context has room for it."""
    limits = self.stage.limits
    before = episode.talk
    episode.recall(self.library, text)
    prompt, text = self.observe(episode, text, role)
    if len(prompt.ids) + limits.message > episode.room:
      made = self.compact(episode, text, role)
      if not made and not self.forget(episode, text, role):
        self.end(episode, Status.TOKEN_LIMIT)
      return
    start = 0
    if before is not None and limits.history != 'turn' and not episode.branch:
      start = len(before.ids)
    if limits.edits and episode.standing:
      number = len(episode.turns)
      episode.standing = episode.standing.longer(number, prompt)
    elif limits.edits:
      episode.standing = Standing(prompt)
    episode.seen.append(text)
    episode.asked, episode.state, episode.head = text, state_of(text), ''
    self.ask(episode, prompt, start, limits.message)

  def ask(
    self, episode: OpenEpisode, prompt: Conversation, start: int, budget: int
  ) -> None:
    """Requests a message after a prompt, which is new from `start` on."""
    episode.talk, episode.context = prompt, prompt.ids[start:]
    episode.context_span = message_spans.of_context(prompt.agent[start:])
    b, k = episode.attempt, len(episode.turns)
    given = self.given(b, k, episode.state) if episode.follows else None
    if episode.heard and self.stage.expert:
      text = self.stage.expert(self.task(episode), episode.seen)
      given = demonstrated(self.stage.talk.words, text, budget, b)
    if given is not None:
      self.act(episode, given, forced=self.forced)
      return
    episode.follows = False
    how = SamplingParams(
      self.keys[b, k],
      budget,
      float(self.attempts.temperature[b]),
      self.stage.top_k,
      self.stage.top_p,
      self.stage.stop,
    )
    self.generator.submit(b, self.read(b, prompt.ids), how)

  # Conversations begin anew.

  def compact(self, episode: OpenEpisode, text: str, role: str) -> bool:
    """Makes room for an observation; False if nothing is left to drop."""
    rule, before = self.stage.limits.compaction, episode.talk
    if rule is None or before is None or episode.compactions == rule.most:
      return False
    episode.compactions += 1
    if not rule.writes:
      episode.talk, episode.branch = None, True
      episode.head = f'{episode.seen[0]}\n' if rule.keep_task else ''
      self.request_message(episode, text, role)
    elif self.turns_left(episode) < 2:  # what it is written for cannot follow
      self.end_early(episode)
    else:
      episode.heard, episode.asked = (text, role), rule.request
      # Summaries behind one observation are of one state.
      episode.state = state_of(f'{episode.seen[-1]}\n{rule.request}')
      request = [Message('user', rule.request)]
      prompt = self.stage.talk.add_messages(before, request)
      self.ask(episode, prompt, len(before.ids), rule.tokens)
    return True

  def begin_anew(
    self, episode: OpenEpisode, ids: Sequence[int], text: str, role: str
  ) -> None:
    """Goes on behind a summary with the observation that waits for it."""
    rule, talk = self.stage.limits.compaction, self.stage.talk
    key = self.keys[episode.attempt, len(episode.turns) - 1]
    first = episode.seen[0] if rule.keep_task else rule.request
    ids = rule.shown(ids, key, talk.words.eot)
    episode.talk = talk.add_reply(self.opened(episode, first), ids)
    episode.branch = True
    self.request_message(episode, text, role)

  # Conversations are edited.

  def forget(self, episode: OpenEpisode, text: str, role: str) -> bool:
    """Drops the oldest turn for an observation; False if it is not to."""
    rule, standing = self.stage.limits.edits, episode.standing
    left = rule.slid(standing) if rule and standing else None
    if left is None:
      return False
    self.go_on_from(episode, left)
    self.request_message(episode, text, role)
    return True

  def go_on_from(self, episode: OpenEpisode, standing: Standing) -> None:
    """Puts the newest message behind what is left of its conversation."""
    before, episode.standing = episode.standing, standing
    episode.branch |= before is not None and before.turns != standing.turns
    ids = episode.turns[-1].spoken.ids
    episode.talk = self.stage.talk.add_reply(standing.whole, ids)

  def on_edit(self, episode: OpenEpisode, edit: Edit) -> None:
    """Answers a message that drops turns, or could not."""
    rule, standing = self.stage.limits.edits, episode.standing
    episode.edits += bool(edit.turns)
    self.go_on_from(episode, rule.edited(standing, edit))
    if not self.turns_left(episode):
      self.end_early(episode)
    else:
      self.request_message(episode, edit.answer, rule.format.role)

  def opened(self, episode: OpenEpisode, text: str) -> Conversation:
    """Begins a conversation, behind system text and notes."""
    system = self.stage.system_of(episode.attempt)
    begin = [Message('system', system)] if system else []
    text = episode.note + text
    return self.stage.talk.start([*begin, Message('user', text)])

  def read(self, attempt: int, ids: tuple[int, ...]) -> tuple[int, ...]:
    """Returns what the policy reads: the conversation, behind a hint if any."""
    guidance, hinted = self.stage.guidance, self.attempts.hinted
    if guidance is None or hinted is None or not hinted[attempt]:
      return ids
    return guidance.behind(int(self.attempts.task[attempt]), ids)

  def observe(
    self, episode: OpenEpisode, text: str, role: str
  ) -> tuple[Conversation, str]:
    """Appends an observation, truncated to its limit; -> also its text."""
    limits, size = self.stage.limits, len(text)
    rebuilt = limits.history == 'turn'
    label = context_edits.label(len(episode.turns)) if limits.edits else ''
    noted = len(self.stage.talk.words.encode(episode.note))

    def with_(size: int) -> tuple[Conversation, str, int]:
      part = text if size == len(text) else text[:size] + CUT
      if rebuilt or episode.talk is None:
        first = episode.head + part
        prompt = self.rebuild(episode, first, role)
        before = limits.opening - limits.notes + noted
        before += limits.past if episode.talk else 0
        before += limits.observation if episode.head else 0
      else:
        heard = [Message(role, label + episode.again + part)]
        prompt = self.stage.talk.add_messages(episode.talk, heard)
        before = len(episode.talk.ids) + noted * bool(episode.again)
      return prompt, part, len(prompt.ids) - before

    prompt, part, tokens = with_(size)
    if tokens <= limits.observation:
      return prompt, part
    self.counts['cut'] += 1
    while tokens > limits.observation and size:
      size = min(size - 1, size * limits.observation // (tokens + 1))
      prompt, part, tokens = with_(size)
    return prompt, part

  def rebuild(self, episode: OpenEpisode, text: str, role: str) -> Conversation:
    """Rebuilds the conversation from the last `window` observations."""
    talk = self.stage.talk
    count = min(self.stage.limits.window - 1, len(episode.turns))
    texts = [*episode.seen[len(episode.seen) - count :], text]
    made = self.opened(episode, texts[0])
    turns = episode.turns[len(episode.turns) - count :]
    for turn, more in zip(turns, texts[1:], strict=True):
      made = talk.add_reply(made, turn.spoken.ids)
      made = talk.add_messages(made, [Message(role, more)])
    return made

  def on_message(
    self, episode: OpenEpisode, spoken: Completion | GenerationFault
  ) -> None:
    if isinstance(spoken, Completion):
      self.act(episode, spoken)
      return
    logging.log_first_n(logging.WARNING, 'No message: %s', 3, spoken.text)
    self.fail(episode, 'generator', spoken.text)

  def act(
    self, episode: OpenEpisode, spoken: Completion, *, forced: bool = False
  ) -> None:
    """Steps the environment with a message, which the policy may be given."""
    words, prefix = self.stage.talk.words, self.stage.action_prefix
    _, text = message_spans.split(words, spoken.ids, prefix)
    heard, episode.heard = episode.heard, None
    rule, edit, info = self.stage.limits.edits, None, episode.info
    mark = functools.partial(base.spans, self.stage.family)
    if heard is not None:
      info |= {SUMMARY: 1.0}
    elif rule is not None and episode.talk is not None:
      info |= {READ: float(len(episode.talk.ids))}
      edit = rule.read(text, episode.standing, episode.edits)
    if edit is not None:
      info |= {EDIT: 1.0}
      mark = functools.partial(context_edits.marked, rule.format)
    span = [Span.PREFIX if forced else Span.OTHER] * len(spoken.ids)
    if heard is None and not forced:
      span = message_spans.of_message(mark, words, spoken.ids, prefix)
    episode.said = text
    turn = TurnData(
      episode.context,
      spoken,
      state=episode.state,
      reward=0.0,
      invalid=edit is not None and edit.invalid,
      info=info,
      span=span,
      context_span=episode.context_span,
      observation=episode.asked,
      branch=episode.branch,
    )
    episode.turns.append(turn)
    episode.branch = False
    if heard is not None:
      self.begin_anew(episode, spoken.ids, *heard)
    elif edit is not None:
      self.on_edit(episode, edit)
    else:
      episode.talk = self.stage.talk.add_reply(episode.talk, spoken.ids)
      call = episode.worker.step(text)
      self.await_reply(episode, call, self.stage.limits.seconds)
