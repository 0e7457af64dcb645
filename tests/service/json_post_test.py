"""JSON posted to a server: how long to wait, and what is told of a key."""

import pytest

from agentrl.service import json_post


def test_a_server_says_how_long_to_wait():
  date = 'Wed, 21 Oct 2026 07:28:00 GMT'
  now = 1792567675.0  # five seconds before
  assert json_post.retry_after(date, lambda: now) == 5
  for text in ('', 'soon', '-3', 'nan', 'inf', '1e400', '9' * 5000):
    assert json_post.retry_after(text) == 0


def test_pauses_grow_up_to_a_minute():
  for tried in range(1, 12):
    pause = json_post.pause(tried, json_post.Again('x'))
    assert min(60, 2 ** (tried - 1)) / 2 <= pause <= min(60, 2 ** (tried - 1))
  assert json_post.pause(1, json_post.Again('x', 17)) == 17
  assert json_post.pause(1, json_post.Again('x', 1e6)) == json_post.WAIT


def test_a_server_that_is_not_there():
  with pytest.raises(json_post.Again):
    json_post.post('http://127.0.0.1:9/x', b'{}', 'secret', 5.0)
