"""Bodies of one size and many shapes."""

import json

CHAT, RESPONSES = 'v1/chat/completions', 'v1/responses'
MESSAGES, GENERATE = 'v1/messages', 'inference/v1/generate'


def _many(part, size, *, before, after, last=None):
  """A body that repeats a part, with commas between."""
  count = (size - len(before) - len(after)) // (len(part) + 1)
  return before + ','.join([part] * (count - 1) + [last or part]) + after


def _filled(part, size, *, before, after):
  return (
    before + part * ((size - len(before) - len(after)) // len(part)) + after
  )


def _chat(part, size, last=None):
  return _many(part, size, before='{"messages":[', after=']}', last=last)


def shapes(size):
  """-> {name: (path, body)}"""
  user, text = '{"role":"user"}', '{"messages":[{"role":"user","content":"'
  own = '{"role":"assistant"}'
  pair = f'{user},{own}'
  call = '{"messages":[{"role":"user","content":"x"},{"role":"assistant",'
  call += '"tool_calls":[{"id":"c","function":{"name":"f","arguments":'
  after = '}}]},{"role":"user","content":"y"}]}'
  tool = '{"messages":[{"role":"user","content":"x"}],"tools":[{"type":'
  tool += '"function","function":{"name":"f","parameters":'
  hello = '"messages":[{"role":"user","content":"x"}]'
  quoted = json.dumps('[' + '[],' * ((size - 400) // 3) + '[]]')
  bodies = {
    'empty messages': (CHAT, _chat(user, size)),
    'empty messages of the agent': (CHAT, _chat(own, size, last=user)),
    'pairs of messages': (CHAT, _chat(pair, size, last=user)),
    'results of tools': (CHAT, _chat('{"role":"tool"}', size)),
    'one letter a message': (
      CHAT,
      _chat('{"role":"user","content":"x"}', size),
    ),
    'one text': (CHAT, _filled('go on ', size, before=text, after='"}]}')),
    'one word': (CHAT, _filled('x', size, before=text, after='"}]}')),
    'spaces': (CHAT, _filled(' ', size, before=text, after='"}]}')),
    'escapes': (CHAT, _filled('\\"', size, before=text, after='"}]}')),
    'halves of pairs': (
      CHAT,
      _filled('\\ud83da', size, before=text, after='"}]}'),
    ),
    'parts of a content': (
      CHAT,
      _many(
        '{"type":"text","text":"x"}',
        size,
        before='{"messages":[{"role":"user","content":[',
        after=']}]}',
      ),
    ),
    'calls': (
      CHAT,
      _many(
        '{"id":"","function":{"name":"f"}}',
        size,
        before='{"messages":[{"role":"assistant","tool_calls":[',
        after=']}]}',
      ),
    ),
    'arguments': (CHAT, call + quoted + after),
    'arguments of a letter': (
      CHAT,
      _filled('x', size, before=call + '"', after='"' + after),
    ),
    'tools': (
      CHAT,
      _many(
        '{"function":{"name":"f"}}',
        size,
        before='{' + hello + ',"tools":[',
        after=']}',
      ),
    ),
    'properties': (
      CHAT,
      _many(
        '"a":{}',
        size,
        before=tool + '{"type":"object","properties":{',
        after='}}}}]}',
      ),
    ),
    'an enumeration': (
      CHAT,
      _many('"x"', size, before=tool + '{"enum":[', after=']}}}]}'),
    ),
    'a description': (
      CHAT,
      _filled('x', size, before=tool + '{"title":"', after='"}}}]}'),
    ),
    'stops': (
      CHAT,
      _many('"x"', size, before='{' + hello + ',"stop":[', after=']}'),
    ),
    'fields': (
      CHAT,
      '{'
      + ','.join(f'"{i:x}":0' for i in range(size // 11))
      + ','
      + hello
      + '}',
    ),
    'lists': (CHAT, _many('[]', size, before='{"a":[', after=']}')),
    'lists in lists': (CHAT, '[' * size),
    'objects in objects': (CHAT, '{"a":' * (size // 5)),
    'quotes': (CHAT, '"' * size),
    'space': (CHAT, '{' + hello + ' ' * (size - 60) + '}'),
    'digits': (CHAT, _many('1' * 4299, size, before='{"a":[', after=']}')),
    'floats': (CHAT, _many('1e5', size, before='{"a":[', after=']}')),
    'a model': (CHAT, _filled('x', size, before='{"model":"', after='"}')),
    'tokens': (GENERATE, _many('9', size, before='{"token_ids":[', after=']}')),
    'stop tokens': (
      GENERATE,
      _many(
        '9',
        size,
        before='{"token_ids":[9],"sampling_params":{"stop_token_ids":[',
        after=']}}',
      ),
    ),
    'blocks': (
      MESSAGES,
      _many(
        '{"type":"tool_use","id":"","name":"f"}',
        size,
        before='{"messages":[{"role":"assistant","content":[',
        after=']}]}',
      ),
    ),
    'results': (
      MESSAGES,
      _many(
        '{"type":"tool_result"}',
        size,
        before='{"messages":[{"role":"user","content":[',
        after=']}]}',
      ),
    ),
    'items': (
      RESPONSES,
      _many('{"role":"user"}', size, before='{"input":[', after=']}'),
    ),
    'terms': (
      'reward',
      '{"reward":1,"terms":{'
      + ','.join(f'"{i:x}":0' for i in range(size // 11))
      + '}}',
    ),
  }
  return {name: (path, body.encode()) for name, (path, body) in bodies.items()}
