"""Matches of host games, played by functions of seats."""

import json


def play(family, task, said, seed=0):
  """Has `said(seat, text)` write every message.

  Returns: what each seat has read, its reward, and the last ruling
  """
  env = family.env()
  seats = family.seat_names
  read, earned = {x: [] for x in seats}, dict.fromkeys(seats, 0.0)
  told, done = json.loads(env.reset(task, seed)), False
  while not done:
    seat = seats[told['seat']]
    read[seat].append(told['text'])
    step = env.step(said(seat, told['text']))
    told, done = json.loads(step.text), step.done
    told['invalid'] = step.invalid
    for name, x in zip(seats, told['reward'], strict=True):
      earned[name] += x
  env.close()
  return read, earned, told


def by_script(messages):
  """Says the messages in the order in which they are asked for."""
  left = iter(messages)
  return lambda seat, text: next(left)
