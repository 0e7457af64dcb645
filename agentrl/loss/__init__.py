"""Per-token losses, and reducers that turn weights into coefficients."""

from agentrl.loss import entropy, kl, nll, ppo, reduce, value

__all__ = ['entropy', 'kl', 'nll', 'ppo', 'reduce', 'value']
