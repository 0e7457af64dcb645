"""Sizes of the credit study declare what their flags may be."""

from agentrl import domain
from agentrl.configs import envs
from agentrl.lab.papers.credit import size as credit_size


def test_every_size_has_a_domain_that_holds_its_default():
  domains = domain.declared(credit_size.CreditSize)
  sizes = credit_size.CreditSize()._asdict()
  assert set(domains) == set(sizes)
  for name, value in sizes.items():
    domains[name].check(name, value)


def test_the_truth_is_a_term_of_its_environment():
  for env, column in credit_size.TRUTH.items():
    assert column in envs.TERMS[env]
