"""Rollouts of host environments: many sessions, each a small state machine.

  reset ─► speak ─► step ─► speak ─► step ─► ... ─► over

Nobody waits for anybody: while worlds think, others write. What trajectory b
says depends on its key and its index only, as in rollouts inside jit, and is
written down in the same `Record`.
"""

import dataclasses
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax

from agentrl.env import base
from agentrl.env.splits import content_key
from agentrl.rollout import keys, pack
from agentrl.rollout.engine.engine import How, Spoken
from agentrl.rollout.pack import Said
from agentrl.rollout.record import Capacity
from agentrl.rollout.workers.pool import EnvFault, Room
from agentrl.text import chat_format
from agentrl.text.chat_format import Talk
from agentrl.text.chat_template import Conversation, Message
from agentrl.types import Attempts, Status

CUT = ' (cut)'  # behind an observation that was longer than may be


class Mouth(Protocol):
  """Who says something, one message for each line at a time (engine.Engine)."""

  @property
  def busy(self) -> bool: ...

  def ask(self, line: int, context: Sequence[int], how: How) -> None: ...

  def launch(self) -> None: ...

  def land(self) -> list[Spoken]: ...

  def drop(self, line: int) -> None: ...


@dataclasses.dataclass(frozen=True)
class Limits:
  """What a trajectory may take.

  history: 'turn' makes the context of each turn anew from the last `window`
  observations and the messages between them; 'full' only appends.
  """

  turns: int  # K
  message: int  # M, tokens of a message with its end of turn
  heard: int  # tokens of an observation, with what stands around it
  opening: int  # tokens before the first observation
  context: int  # tokens of a conversation at most
  history: str = 'full'
  window: int = 1
  seconds: float = 60.0  # for one turn of an environment
  start: float = 600.0  # seconds for a reset, which may start a program
  patience: float = 3600.0  # seconds of a trajectory

  @property
  def width(self) -> int:
    """C: the most tokens that are new to the model in a turn."""
    if self.history == 'full':
      return self.opening + self.heard
    return min(self.context, self.opening + self.heard + self.past)

  @property
  def past(self) -> int:
    """The most tokens of earlier turns in a context made anew."""
    return (self.window - 1) * (self.heard + self.message)

  @property
  def capacity(self) -> Capacity:
    whole = self.history == 'full'
    row = self.context if whole else self.width + self.message
    return Capacity(self.width, row, self.context)


class Stage(NamedTuple):
  """What is played, and how it is put into words."""

  family: base.Family
  tasks: Sequence[Mapping[str, Any]]  # Attempts.task is an index into these
  talk: Talk
  limits: Limits
  top_k: int = 0
  top_p: float = 1.0
  stop: Callable[[Sequence[int]], int] | None = None


@dataclasses.dataclass
class _Session:
  """A trajectory under way."""

  line: int  # its index b
  room: Room
  began: float
  talk: Conversation | None = None
  context: tuple[int, ...] = ()  # what it answers now
  seen: list[str] = dataclasses.field(default_factory=list)
  turns: list[Said] = dataclasses.field(default_factory=list)
  call: Any = None  # the answer it waits for
  until: float = 0.0  # when that is too late


def sessions(
  stage: Stage,
  mouth: Mouth,
  rooms: Sequence[Room],
  attempts: Attempts,
  key: jax.Array,
  *,
  lines: Sequence[int] | None = None,
  stopping: Callable[[], None] = lambda: None,
) -> tuple[list[pack.Ended], dict[str, int]]:
  """Plays attempts to their end.

  Args:
    rooms: as many trajectories are under way at a time
    key: of this iteration, as in rollout/jit.py
    lines: of the attempts, those that are played; all of them if None
    stopping: called between rounds; what it raises ends the play
  Returns: a trajectory for each line; counts: 'fault/<kind>', 'cut'
    observations
  """
  lines = range(len(attempts.task)) if lines is None else lines
  return _Play(stage, mouth, rooms, attempts, key, lines).run(stopping)


class _Play:
  def __init__(self, stage, mouth, rooms, attempts: Attempts, key, lines):
    self.stage, self.mouth, self.lines = stage, mouth, lines
    self.attempts = jax.device_get(attempts)
    limits = stage.limits
    self.keys, self.seeds = keys.on_host(attempts, key, limits.turns)
    self.given = pack.given(attempts, limits.turns, limits.message)
    self.waiting = iter(lines)
    self.free = [rooms[i] for i in reversed(range(len(rooms)))]
    self.open: dict[int, _Session] = {}
    self.answers: queue.SimpleQueue = queue.SimpleQueue()
    self.ended: dict[int, pack.Ended] = {}
    self.counts: dict[str, int] = {'cut': 0}

  def run(self, stopping):
    try:
      self.begin()
      while self.open:
        stopping()
        self.mouth.launch()
        self.listen()
        for spoken in self.mouth.land():
          self.act(self.open[spoken.line], spoken)
        self.listen()
        if not self.mouth.busy and self.open:
          self.wait()
        self.hurry()
    finally:
      for session in self.open.values():
        session.room.end()
        self.mouth.drop(session.line)
    return [self.ended[line] for line in self.lines], self.counts

  # Sessions begin and end.

  def begin(self) -> None:
    """Sessions in all free rooms."""
    while self.free and (line := next(self.waiting, None)) is not None:
      session = _Session(line, self.free.pop(), time.monotonic())
      self.open[line] = session
      task = self.stage.tasks[self.attempts.task[line]]
      call = session.room.reset(task, int(self.seeds[line]))
      self.expect(session, call, self.stage.limits.start)

  def end(self, session: _Session, status: Status, score: float = 0.0) -> None:
    self.ended[session.line] = pack.Ended(session.turns, status, score)
    self.mouth.drop(session.line)
    del self.open[session.line]
    self.free.append(session.room)
    self.begin()

  def fail(self, session: _Session, kind: str) -> None:
    """An environment's fault costs its own trajectory."""
    name = f'fault/{kind}'
    self.counts[name] = self.counts.get(name, 0) + 1
    session.room.end()
    self.end(session, Status.ENV_ERROR)

  # What worlds answer.

  def expect(self, session: _Session, call, seconds: float) -> None:
    session.call, session.until = call, time.monotonic() + seconds
    line = session.line
    call.add_done_callback(lambda call: self.answers.put((line, call)))

  def wait(self) -> None:
    """Until somebody answers, or somebody's time is over."""
    first = min(s.until for s in self.open.values()) - time.monotonic()
    try:
      self.take(*self.answers.get(timeout=min(max(0.0, first), 1.0)))
    except queue.Empty:
      return
    self.listen()

  def listen(self) -> None:
    while not self.answers.empty():
      self.take(*self.answers.get())

  def take(self, line: int, call) -> None:
    session = self.open.get(line)
    if session is None or session.call is not call:
      return  # of a session that was ended
    session.call = None
    error = call.exception()
    if isinstance(error, EnvFault):
      self.fail(session, error.kind)
    elif error is not None:
      raise error
    elif session.turns:
      self.hear(session, call.result())
    else:
      self.speak(session, call.result(), 'user')

  def hurry(self) -> None:
    """Ends who is too late."""
    now = time.monotonic()
    for session in list(self.open.values()):
      if session.call is not None and now > session.until:
        self.fail(session, 'time')
      elif now - session.began > self.stage.limits.patience:
        session.room.end()
        self.end(session, Status.TIME_LIMIT)

  def hear(self, session: _Session, reply: base.Reply) -> None:
    """What a message came to."""
    last = session.turns[-1]
    session.turns[-1] = last._replace(
      reward=reply.reward, invalid=reply.invalid, facts=reply.facts
    )
    limit = min(self.attempts.limit[session.line], self.stage.limits.turns)
    if reply.done:
      solved = reply.score > 0.5
      status = Status.SOLVED if solved else Status.FAILED
      self.end(session, status, reply.score)
    elif len(session.turns) >= limit:
      self.end(session, Status.TURN_LIMIT, reply.score)
    else:
      self.speak(session, reply.text, reply.role)

  # What agents say.

  def speak(self, session: _Session, text: str, role: str) -> None:
    """Asks for the next message, if there is room for it."""
    limits = self.stage.limits
    before = session.talk
    heard, text = self.heard(session, text, role)
    new = heard.ids
    if limits.history == 'full' and before is not None:
      new = heard.ids[len(before.ids) :]
    if len(heard.ids) + limits.message > limits.context:
      self.end(session, Status.TOKEN_LIMIT)
      return
    session.talk, session.context = heard, new
    session.seen.append(text)
    if given := self.given(session.line, len(session.turns)):
      self.act(session, given)
      return
    b, k = session.line, len(session.turns)
    how = How(
      self.keys[b, k],
      limits.message,
      float(self.attempts.temperature[b]),
      self.stage.top_k,
      self.stage.top_p,
      self.stage.stop,
    )
    self.mouth.ask(b, heard.ids, how)

  def heard(
    self, session: _Session, text: str, role: str
  ) -> tuple[Conversation, str]:
    """The conversation with an observation, of which too much is cut off."""
    limits, size = self.stage.limits, len(text)
    first = limits.history == 'turn' or session.talk is None

    def with_(size: int) -> tuple[Conversation, str, int]:
      part = text if size == len(text) else text[:size] + CUT
      if first:
        found, known = self.anew(session, part, role), limits.opening
        known += limits.past if session.talk else 0
      else:
        found = self.stage.talk.heard(session.talk, [Message(role, part)])
        known = len(session.talk.ids)
      return found, part, len(found.ids) - known

    found, part, tokens = with_(size)
    if tokens <= limits.heard:
      return found, part
    self.counts['cut'] += 1
    while tokens > limits.heard and size:
      size = min(size - 1, size * limits.heard // (tokens + 1))
      found, part, tokens = with_(size)
    return found, part

  def anew(self, session: _Session, text: str, role: str) -> Conversation:
    """A conversation of the last `window` observations."""
    family, talk = self.stage.family, self.stage.talk
    begin = [Message('system', family.system)] if family.system else []
    kept = min(self.stage.limits.window - 1, len(session.turns))
    texts = [*session.seen[len(session.seen) - kept :], text]
    made = talk.start([*begin, Message('user', texts[0])])
    said = session.turns[len(session.turns) - kept :]
    for turn, more in zip(said, texts[1:], strict=True):
      made = talk.said(made, turn.spoken.ids)
      made = talk.heard(made, [Message(role, more)])
    return made

  def act(self, session: _Session, spoken: Spoken) -> None:
    """Says a message to the world."""
    state = int(content_key(session.seen[-1].encode())[:8], 16) & 0x7FFFFFFF
    session.turns.append(Said(session.context, spoken, state, 0.0, False, {}))
    session.talk = self.stage.talk.said(session.talk, spoken.ids)
    text = chat_format.content(self.stage.talk.words, spoken.ids)
    self.expect(session, session.room.step(text), self.stage.limits.seconds)
