"""Privileges of the process: what it has is dropped, and none come back."""

import ctypes
import os

_NO_NEW_PRIVILEGES, _SECURE_BITS, _DROP_BOUND, _AMBIENT = 38, 28, 24, 47
_CLEAR = 4  # of _AMBIENT
_CAPSET = {'x86_64': 126, 'aarch64': 91}
_VERSION = 0x20080522  # of capset: 64 capabilities
# Root gains nothing by running a program or by another change of user, and
# none can be made ambient; the odd bits lock the even ones.
_ROOT_IS_A_USER = 0b11101111


def gain_none(libc: ctypes.CDLL) -> None:
  """Lets no program that is run from now on gain a privilege.

  Raises:
    OSError: the kernel cannot.
  """
  if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
    raise OSError(ctypes.get_errno(), 'to gain no privileges')


def drop(libc: ctypes.CDLL) -> None:
  """Gives up every capability for ever; root is then a user like others.

  What only root may set besides (the bounding set, the secure bits) is not
  needed after `gain_none`.

  Raises:
    OSError: the kernel does not allow it.
  """
  for capability in range(64):
    libc.prctl(_DROP_BOUND, capability, 0, 0, 0)
  libc.prctl(_AMBIENT, _CLEAR, 0, 0, 0)
  libc.prctl(_SECURE_BITS, _ROOT_IS_A_USER, 0, 0, 0)
  head = (ctypes.c_uint32 * 2)(_VERSION, 0)
  none = (ctypes.c_uint32 * 6)()
  if libc.syscall(_CAPSET[os.uname().machine], head, none):
    raise OSError(ctypes.get_errno(), 'to drop capabilities')
