"""Who makes an XML request, and what they may do.

    role         publish an event   subscribe   extend the schema
    (none)
    publisher    yes
    member       yes                yes
    extender                                    yes
    admin        yes                yes         yes

Everyone may read the schema. A subscription belongs to an account, so a guest cannot have one, whatever the roles. In
the thesis everyone may publish and extend the schema (section 5.4): that is a guest with the roles publisher and extender.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Right = Literal["publish", "subscribe", "extend"]

RIGHTS_OF: dict[str, frozenset[Right]] = {
    "publisher": frozenset({"publish"}),
    "member": frozenset({"publish", "subscribe"}),
    "extender": frozenset({"extend"}),
    "admin": frozenset({"publish", "subscribe", "extend"}),
}


@dataclass(frozen=True, slots=True)
class Principal:
    """An account, by its name, or a guest (None), with the roles that it has. A role that is not known gives no right."""

    account: str | None = None
    roles: frozenset[str] = frozenset()

    def may(self, right: Right) -> bool:
        """Return whether one of the roles gives the right."""
        return any(right in RIGHTS_OF.get(role, ()) for role in self.roles)


GUEST = Principal()
