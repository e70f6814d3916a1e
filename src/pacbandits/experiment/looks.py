from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Look:
    claim: Any
    number: int = 0

    def to_json(self):
        return {"claim": self.claim, "number": self.number}

    @classmethod
    def from_json(cls, v):
        return cls(v["claim"], v["number"])


def look_at(protocol, found, *, last, at):
    s = found.state
    c = None if s is None else s.certificate
    if c is None:
        return Look(None)
    return Look(
        {
            "certified": c.certified,
            "certified_epsilon": c.certified_epsilon,
            "epsilon": c.epsilon,
            "samples": c.samples,
            "describe": c.describe(),
            "promise": c.promise(),
            "assumptions": list(c.assumptions),
            "words": c.words,
        }
    )
