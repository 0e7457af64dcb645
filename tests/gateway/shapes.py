"""Bodies of one size and many shapes."""

import json

CHAT, RESPONSES = 'v1/chat/completions', 'v1/responses'
MESSAGES, GENERATE = 'v1/messages', 'inference/v1/generate'
HELLO = '{"messages":[{"role":"user","content":"x"}],'
TEXT = '{"messages":[{"role":"user","content":"'
PARTS = '{"messages":[{"role":"user","content":['
CALLS = '{"messages":[{"role":"assistant","tool_calls":['
BLOCKS = '{"messages":[{"role":"assistant","content":['
ARGUMENTS = (
  '{"messages":[{"role":"user","content":"x"},{"role":"assistant",'
  '"tool_calls":[{"id":"c","function":{"name":"f","arguments":'
)
ANSWERED = '}}]},{"role":"user","content":"y"}]}'
SCHEMA = HELLO + '"tools":[{"type":"function","function":{"name":"f",'
SCHEMA += '"parameters":'
PROPERTIES = SCHEMA + '{"type":"object","properties":{'
STOPS = '{"token_ids":[9],"sampling_params":{"stop_token_ids":['
USER = '{"role":"user"}'
OWN = '{"role":"assistant"}'
USE = '{"type":"tool_use","id":"","name":"f"}'
# name: path, before, a part, after; the part is repeated.
FILLED = {
  'one text': (CHAT, TEXT, 'go on ', '"}]}'),
  'one word': (CHAT, TEXT, 'x', '"}]}'),
  'spaces': (CHAT, TEXT, ' ', '"}]}'),
  'escapes': (CHAT, TEXT, '\\"', '"}]}'),
  'halves of pairs': (CHAT, TEXT, '\\ud83da', '"}]}'),
  'arguments of a letter': (CHAT, ARGUMENTS + '"', 'x', '"' + ANSWERED),
  'a description': (CHAT, SCHEMA + '{"title":"', 'x', '"}}}]}'),
  'lists in lists': (CHAT, '', '[', ''),
  'objects in objects': (CHAT, '', '{"a":', ''),
  'quotes': (CHAT, '', '"', ''),
  'space': (CHAT, HELLO[:-1], ' ', '}'),
  'a model': (CHAT, '{"model":"', 'x', '"}'),
}
# The same with commas between, and sometimes another part at the end.
MANY = {
  'empty messages': (CHAT, '{"messages":[', USER, ']}'),
  'empty messages of the agent': (CHAT, '{"messages":[', OWN, f',{USER}]}}'),
  'pairs of messages': (CHAT, '{"messages":[', f'{USER},{OWN}', f',{USER}]}}'),
  'results of tools': (CHAT, '{"messages":[', '{"role":"tool"}', ']}'),
  'one letter a message': (CHAT, '{"messages":[', TEXT[13:] + 'x"}', ']}'),
  'parts of a content': (CHAT, PARTS, '{"type":"text","text":"x"}', ']}]}'),
  'calls': (CHAT, CALLS, '{"id":"","function":{"name":"f"}}', ']}]}'),
  'tools': (CHAT, HELLO + '"tools":[', '{"function":{"name":"f"}}', ']}'),
  'properties': (CHAT, PROPERTIES, '"a":{}', '}}}}]}'),
  'an enumeration': (CHAT, SCHEMA + '{"enum":[', '"x"', ']}}}]}'),
  'stops': (CHAT, HELLO + '"stop":[', '"x"', ']}'),
  'lists': (CHAT, '{"a":[', '[]', ']}'),
  'digits': (CHAT, '{"a":[', '1' * 4299, ']}'),
  'floats': (CHAT, '{"a":[', '1e5', ']}'),
  'tokens': (GENERATE, '{"token_ids":[', '9', ']}'),
  'stop tokens': (GENERATE, STOPS, '9', ']}}'),
  'blocks': (
    MESSAGES,
    BLOCKS,
    '{"type":"tool_use","id":"","name":"f"}',
    ']}]}',
  ),
  'results': (MESSAGES, PARTS, '{"type":"tool_result"}', ']}]}'),
  'items': (RESPONSES, '{"input":[', USER, ']}'),
}


def shapes(size):
  """-> {name: (path, body)}"""
  quoted = json.dumps('[' + '[],' * ((size - 400) // 3) + '[]]')
  fields = ','.join(f'"{i:x}":0' for i in range(size // 11))
  bodies = {
    'arguments': (CHAT, ARGUMENTS + quoted + ANSWERED),
    'fields': (CHAT, HELLO + fields + '}'),
    'terms': ('reward', '{"reward":1,"terms":{' + fields + '}}'),
  }
  for name, (path, before, part, after) in FILLED.items():
    room = size - len(before) - len(after)
    bodies[name] = path, before + part * (room // len(part)) + after
  for name, (path, before, part, after) in MANY.items():
    room = size - len(before) - len(after)
    parts = [part] * (room // (len(part) + 1))
    bodies[name] = path, before + ','.join(parts) + after
  return {name: (path, body.encode()) for name, (path, body) in bodies.items()}
