"""Rows of a writer, and what event files show of them."""

import struct

from tensorboardX.proto import event_pb2

from agentrl.log import metrics


def writer(folder, resume_after=None, **header):
  return metrics.MetricsWriter(folder, resume_after=resume_after, header=header)


def write_steps(folder, steps, resume_after=None):
  w = writer(folder, resume_after)
  for step in steps:
    w.write(step, {'loss/total': step / 3}, phase='rl')
  w.close()


def read_events(folder) -> list[event_pb2.Event]:
  """Every event below a folder, oldest file first."""
  found = []
  paths = sorted(folder.iterdir(), key=lambda p: p.stat().st_mtime_ns)
  for data in (p.read_bytes() for p in paths):
    at = 0
    while at < len(data):
      (n,) = struct.unpack_from('<Q', data, at)
      found.append(event_pb2.Event.FromString(data[at + 12 : at + 12 + n]))
      at += 12 + n + 4
  return found


def shown_scalars(folder) -> list[tuple[int, float]]:
  """What TensorBoard shows of the scalars after its purges."""
  kept = []
  for event in read_events(folder):
    if event.HasField('session_log'):
      kept = [(s, v) for s, v in kept if s < event.step]
    kept += [(event.step, v.simple_value) for v in event.summary.value]
  return kept
