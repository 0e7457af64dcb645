"""Mistakes in the message graph, the gateway and programs."""

from tests.mutation.mutant import Mutant

_GRAPH = 'tests/text/message_graph_test.py'
_APP = 'tests/gateway/app_test.py'
_CONNECTIONS = 'tests/gateway/connections_test.py'
_SESSION = 'tests/gateway/session_test.py'
_PROBE = 'tests/rollout/remote/probe_test.py'
_REMOTE = 'tests/rollout/remote/generator_test.py'
_PUBLISH = 'tests/publish_test.py'
_SERVED = 'tests/gateway/served_test.py'
_REQUEST = 'tests/gateway/request_test.py'
_PROGRAMS = 'tests/gateway/programs_test.py'
_PACK = 'tests/rollout/pack_test.py'
_DRIVER = 'tests/rollout/engine/driver_test.py'

MUTANTS = (
  Mutant(
    'agentrl.text.message_graph',
    'MessageGraph._longest',
    'self._sampled[node], i',
    'self._sampled[node], i - 1',
    _GRAPH,
    'what was sampled is rendered again behind itself',
  ),
  Mutant(
    'agentrl.text.message_graph',
    'MessageGraph._turn',
    'len(before.prompt.ids) + before.size',
    'len(before.prompt.ids)',
    _GRAPH,
    'what was sampled stands twice in a row',
  ),
  Mutant(
    'agentrl.text.message_graph',
    'MessageGraph.turns',
    'chains.pop(',
    'chains.get(',
    _GRAPH,
    'a branch goes on in the row of another',
  ),
  Mutant(
    'agentrl.text.message_graph',
    'MessageGraph.prompt_of_tokens',
    'best < len(before) < len(ids)',
    'best < len(before) <= len(ids)',
    _GRAPH,
    'a prompt of tokens has nothing new',
  ),
  Mutant(
    'agentrl.text.message_graph',
    'canonical_json',
    'sort_keys=True',
    'sort_keys=False',
    _REQUEST,
    'equal arguments are another message',
  ),
  Mutant(
    'agentrl.gateway.connections',
    'Connections.join',
    'next(iter(self._others))',
    'connection',
    _CONNECTIONS,
    'a crowd that is there first keeps all others out',
  ),
  Mutant(
    'agentrl.gateway.connections',
    'Connections.admit',
    'del self._others[connection]',
    'pass',
    _CONNECTIONS,
    'who has shown the key is cut off as one who has not',
  ),
  Mutant(
    'agentrl.gateway.connections',
    'Connections.admit',
    'connection not in self._others or',
    '',
    _CONNECTIONS,
    'a connection that is gone holds a place',
  ),
  Mutant(
    'agentrl.gateway.session',
    'Session.begin',
    'size + how.budget > limits.context',
    'size > limits.context',
    _SESSION,
    'a prompt leaves no room for its message',
  ),
  Mutant(
    'agentrl.gateway.session',
    'Session.begin',
    'self.graph.row_tokens() > limits.row',
    'size > limits.row',
    _SESSION,
    'branches have more room than their row',
  ),
  Mutant(
    'agentrl.gateway.session',
    'attempt_sampling',
    'keys[number]',
    'keys[0]',
    _SESSION,
    'all messages are drawn by one key',
  ),
  Mutant(
    'agentrl.rollout.remote.probe',
    'check',
    'logp_of(prompt, message.ids, t)',
    'logp_of(prompt, message.ids, 1.0)',
    _PROBE,
    'raw log-probs pass for those of the temperature',
  ),
  Mutant(
    'agentrl.rollout.remote.generator',
    'RemoteGenerator._generate',
    'made.version != str(published.number)',
    'not made.version',
    _REMOTE,
    'messages of old weights are trained on',
  ),
  Mutant(
    'agentrl.publish',
    'check',
    '_entry(place) != entry',
    'False',
    _PUBLISH,
    'damaged weights are used',
  ),
  Mutant(
    'agentrl.gateway.served',
    'ServedModel.answer',
    "tries or '0'",
    'tries',
    _SERVED,
    'two samples of a conversation are one',
  ),
  Mutant(
    'agentrl.gateway.served',
    'client_sampling',
    'seed & 0xFFFFFFFF',
    'seed & 0xFFFF & 0',
    _SERVED,
    'the seed of the client changes nothing',
  ),
  Mutant(
    'agentrl.gateway.session',
    'Session.post',
    'self.reward is not None',
    'self.reward is None and False',
    _APP,
    'the last reward counts',
  ),
  Mutant(
    'agentrl.gateway.answers',
    'SessionAnswers.answer',
    "tries != '0'",
    "tries == '0'",
    _APP,
    'a retry is a branch and a repeat none',
  ),
  Mutant(
    'agentrl.gateway.programs',
    '_Batch._result',
    'error is not None and limit is None',
    'error is not None',
    _PROGRAMS,
    'a program that was cut short is an environment error',
  ),
  Mutant(
    'agentrl.gateway.programs',
    '_Batch._result',
    'error is not None and session.cut',
    'error is not None and not session.cut',
    _PROGRAMS,
    'a program that raises for a message that was cut is at fault',
  ),
  Mutant(
    'agentrl.gateway.session',
    'Session.end',
    'self.cut = not ended',
    'self.cut = self.cut or not ended',
    _SESSION,
    'a message that was cut excuses whatever fails later',
  ),
  Mutant(
    'agentrl.gateway.episodes',
    'turns_of',
    'turn.first and i > 0',
    'turn.first and i < 0',
    _PROGRAMS,
    'branches follow each other as one conversation',
  ),
  Mutant(
    'agentrl.rollout.pack',
    'record',
    'np.cumsum(first, axis=1, dtype=np.int32)',
    'first',
    _PACK,
    'a branch ends with its first turn',
  ),
  Mutant(
    'agentrl.rollout.record',
    'rows',
    '(layout.column > 0) & goes_on',
    'layout.column > 0',
    _PACK,
    'what a branch repeats answers the turn before it',
  ),
  Mutant(
    'agentrl.rollout.engine.driver',
    'GeneratorDriver.begin',
    'answer.cancelled()',
    'answer.done() and False',
    _DRIVER,
    'a cancelled request is begun',
  ),
)
