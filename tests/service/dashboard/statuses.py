"""Statuses as experiments give them, made by hand: one of each state, and some that nobody would wish for."""

from __future__ import annotations

import copy
import json
import math
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from pacbandits.policies import chosen_from_json
from pacbandits.records.policy import describe_chosen

START = datetime(2026, 10, 29, 8, 30, tzinfo=UTC)
NOW = START + timedelta(days=18, hours=3)
ACTIONS = ["standard", "discount", "free shipping"]
HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"
FILLED = ("claim", "to_go", "value", "health", "rewards", "round", "seal", "late", "holdout_compared")
LONG = "a very long name of an experiment that somebody in marketing thought up, " * 3 + "the end"


def at(days):
    return (START + timedelta(days=days)).isoformat()


def fingerprint(words):
    return sha256(words.encode()).hexdigest()


def created(name="autumn banners"):
    """Just made: nobody has come."""
    return {
        "name": name,
        "state": "collecting",
        "reason": None,
        "created": at(0),
        "updated": None,
        "now": at(0.01),
        "epsilon": 0.02,
        "delta": 0.05,
        "reward_range": [0, 1],
        "actions": list(ACTIONS),
        "features": ["age", "country", "device"],
        "late": {"rule": "window", "window_seconds": 604800, "missing": 0.0},
        "visits": "sticky",
        "holdout": 0.05,
        "standard": "standard",
        "algorithm": "coda",
        "policies": "trees:depth=2",
        "round": {
            "number": 0,
            "kind": "design",
            "planned": 1000,
            "assigned": 0,
            "opened": at(0),
            "closes": at(1),
            "designing": False,
        },
        "assigned": 0,
        "holdout_assigned": 0,
        "rewards": {"in": 0, "awaited": 0, "missed": 0, "late": 0},
        "claim": None,
        "curve": [],
        "to_go": None,
        "value": None,
        "arms": [],
        "leaves": [],
        "policy": None,
        "health": {
            "awaited_share": None,
            "late_share": None,
            "least_propensity": None,
            "checks": [],
            "guardrail": None,
        },
        "holdout_compared": None,
        "events": [{"sequence": 1, "at": at(0), "kind": "created", "words": "The experiment was created."}],
        "seal": {"head": fingerprint("created"), "entries": 1, "protocol": fingerprint("protocol")},
    }


TREE = {
    "kind": "tree",
    "n_actions": 3,
    "root": {
        "feature": "country",
        "is": "DE",
        "then": {"feature": "age", "at_most": 34.0, "then": {"action": 1}, "else": {"action": 2}},
        "else": {"feature": "device", "is": "phone", "then": {"action": 2}, "else": {"action": 0}},
    },
}
LEAVES = [
    ("country is DE and age ≤ 34", 0.22, "discount", (0.11, 0.74, 0.15)),
    ("country is DE and age > 34", 0.31, "free shipping", (0.18, 0.21, 0.61)),
    ("country is not DE and device is phone", 0.27, "free shipping", (0.29, 0.12, 0.59)),
    ("country is not DE and device is not phone", 0.20, "standard", (0.57, 0.09, 0.34)),
]
WORDS = """if country is DE:
    if age ≤ 34: discount
    else: free shipping
else:
    if device is phone: free shipping
    else: standard"""


def points(looks):
    """Looks at the data: each proves what it proves, and the best of them stays proven."""
    found, best = [], math.inf
    for i in range(1, looks + 1):
        proven = 0.62 / i**0.98 * (1.12 if i % 4 == 0 else 1.0)
        best = min(best, proven)
        samples = 620 * i + 12 * i * i
        found.append({"samples": samples, "certified_epsilon": proven, "best": best, "at": at(0.95 * i), "round": i})
    return found


def collecting(name="checkout", *, looks=18, more=0):
    """Under way; more: how many people have come since the last look."""
    status = created(name)
    curve = points(looks)
    samples, best = curve[-1]["samples"], curve[-1]["best"]
    people = samples + more
    awaited, missed = round(0.06 * people), round(0.09 * people)
    status |= {
        "updated": curve[-1]["at"],
        "now": at(0.95 * looks + 0.3),
        "round": status["round"] | {"number": looks, "kind": "continued", "assigned": 340 + more},
        "assigned": people,
        "holdout_assigned": round(people * 0.052),
        "rewards": {"in": people - awaited - missed, "awaited": awaited, "missed": missed, "late": 41},
        "curve": curve,
        "claim": claim(samples, best, certified=False, round=looks),
        "to_go": {
            "samples": 8400,
            "days": 11.6,
            "plain_trial": 41000,
            "plan": {"people": {"0.5": 19000, "0.8": 24500, "0.95": 31000}, "days": {"0.5": 27, "0.8": 35, "0.95": 44}},
        },
        "value": {
            "policy": {"low": 0.118, "estimate": 0.134, "high": 0.151},
            "standard": {"low": 0.094, "estimate": 0.105, "high": 0.117},
            "lift": {"low": 0.008, "estimate": 0.029, "high": 0.051},
            "confidence": 0.95,
            "words": "The rule earns more than “standard” for everybody; how much more is not known well yet.",
        },
        "arms": [
            {
                "action": a,
                "assigned": round(people * s),
                "share": s,
                "mean": m,
                "rewards_in": round(people * s * 0.85),
                "withdrawn": False,
            }
            for a, s, m in zip(ACTIONS, (0.27, 0.29, 0.44), (0.105, 0.109, 0.121), strict=True)
        ],
        "guardrails": ["returned <= control + 0.01"],
        "metrics": [
            {
                "name": "returned",
                "actions": [
                    {"action": a, "mean": m, "low": m - 0.004, "high": m + 0.004}
                    for a, m in zip(ACTIONS, (0.021, 0.024, 0.022), strict=True)
                ],
            }
        ],
        "leaves": [
            {"where": where, "share": share, "action": action, "shares": dict(zip(ACTIONS, shares, strict=True))}
            for where, share, action, shares in LEAVES
        ],
        "policy": copy.deepcopy(TREE),
        "health": health(people),
        "holdout_compared": {
            "holdout": {"rows": round(people * 0.05), "mean": 0.103, "low": 0.081, "high": 0.129},
            "experiment": {"rows": people, "mean": 0.114, "low": 0.107, "high": 0.121},
        },
        "events": events(looks),
        "seal": {"head": fingerprint(str(looks)), "entries": 2 * looks + 1, "protocol": fingerprint("protocol")},
    }
    return status


def claim(samples, best, *, certified, round):
    return {
        "certified": certified,
        "certified_epsilon": best,
        "epsilon": 0.02,
        "samples": samples,
        "describe": f"except with probability 0.045 the policy is within {best:.3g} of the best of its class",
        "promise": "With 95 % confidence, at every look at once, no tree of depth 2 earns more than that above it.",
        "assumptions": [
            "people who come are like those who will come",
            "each action was drawn with the probability that was logged",
            "a reward is what came within 7 days of the assignment, and 0 where nothing did",
        ],
        "words": WORDS,
        "at": at(0.95 * round),
        "round": round,
    }


def health(people, *, alarm=False, guard=False):
    return {
        "awaited_share": 0.06,
        "late_share": 0.003,
        "least_propensity": 0.021,
        "checks": [
            {
                "name": "sample ratio",
                "alarm": alarm,
                "evidence": 9.7 if alarm else 0.8,
                "needed": 6.9,
                "words": "Actions were not drawn as often as they should be: free shipping came up 31 % of times "
                "and not 44 %."
                if alarm
                else "Actions come up as often as they should.",
            },
            {
                "name": "drift",
                "alarm": False,
                "evidence": 1.9,
                "needed": 6.9,
                "words": "People and rewards look the same over time.",
            },
        ],
        "guardrail": {
            "name": "complaint",
            "most": 0.02,
            "tests": [
                {
                    "of": of,
                    "rows": rows,
                    "mean": mean,
                    "seen": rows,
                    "evidence": evidence,
                    "needed": 5.7,
                    "alarm": guard and i == 2,
                }
                for i, (of, rows, mean, evidence) in enumerate(
                    (
                        ("standard", 3410, 0.008, 0.0),
                        ("discount", 3663, 0.011, 0.0),
                        ("free shipping", 5558, 0.031 if guard else 0.013, 6.2 if guard else 0.1),
                        ("all", people, 0.019, 0.4),
                    )
                )
            ],
        },
    }


def events(looks):
    made = [(0.0, "created", "The experiment was created.")]
    for i in range(1, looks + 1):
        made.append((0.95 * i - 0.01, "closed", f"Round {i} closed with {620 + 24 * i:,} people."))
        made.append((0.95 * i, "opened", f"Round {i + 1} began; its design, leader and stakes are in the record."))
    return [{"sequence": i + 1, "at": at(d), "kind": kind, "words": words} for i, (d, kind, words) in enumerate(made)]


def certified(name="newsletter"):
    status = collecting(name, looks=32)
    last = status["curve"][-1]
    last |= {"certified_epsilon": 0.0198, "best": 0.0198}
    status |= {
        "state": "certified",
        "claim": claim(last["samples"], 0.0198, certified=True, round=32),
        "to_go": {"samples": 0, "days": 0.0, "plain_trial": 58000, "plan": None},
    }
    status["events"].append({"sequence": 99, "at": last["at"], "kind": "certified", "words": "The goal is proven."})
    return status


def paused(name="winter prices", *, looks=9):
    status = collecting(name, looks=looks)
    status |= {
        "state": "paused",
        "reason": "the guardrail complaint is above 0.02 for free shipping",
        "health": health(status["assigned"], guard=True),
    }
    words = "Paused: the guardrail complaint is above 0.02 for free shipping."
    status["events"].append({"sequence": 99, "at": at(9.2), "kind": "paused", "words": words})
    return status


def alarmed(name="search ranking"):
    status = collecting(name, looks=5)
    status["health"] = health(status["assigned"], alarm=True)
    status["to_go"] = None
    return status


def mixed(name="gift cards"):
    """Proven of a mixture of rules, as databases of earlier versions name it, at a look before the last."""
    status = collecting(name, looks=12)
    single = {"kind": "tree", "n_actions": 3, "root": {"action": 1}}
    status["policy"] = {"kind": "lottery", "policies": [single, copy.deepcopy(TREE)], "weights": [0.3, 0.7]}
    status["claim"]["words"] = describe_chosen(chosen_from_json(status["policy"]), ACTIONS)
    return status


def withdrawn(name="old stock"):
    """An action withdrawn, rewards at their worst, stopped."""
    status = collecting(name, looks=7)
    status["arms"][1]["withdrawn"] = True
    status["policy"] = {"kind": "tree", "n_actions": 3, "root": {"action": 2}}
    status["claim"]["words"] = "always free shipping"
    status["leaves"] = [{"where": "", "share": 1.0, "action": "free shipping", "shares": {"free shipping": 1.0}}]
    return status | {
        "state": "stopped",
        "reason": "sold out",
        "late": {"rule": "worst case", "window_seconds": None, "missing": None},
    }


def hostile():
    """Every text of it wants to be markup."""
    status = json.loads(json.dumps(collecting(HOSTILE, looks=3)))

    def spoil(value):
        if isinstance(value, dict):
            return {key: spoil(one) for key, one in value.items()}
        if isinstance(value, list):
            return [spoil(one) for one in value]
        return value + HOSTILE if isinstance(value, str) and not value[:4].isdigit() else value

    kept = {key: status[key] for key in ("state", "name")}
    kind = status["policy"]["kind"]
    spoilt = spoil(status) | kept
    spoilt["policy"]["kind"] = kind
    for leaf in spoilt["leaves"]:
        leaf["shares"] = {key + HOSTILE: share for key, share in leaf["shares"].items()}
    return spoilt


def many(name=LONG):
    """Long names of everything, and many actions."""
    status = collecting(name, looks=6)
    names = [f"action number {i} with-a-name-that-does-not-end-and-has-no-place-to-break" for i in range(20)]
    node = {"action": 19}
    for i in range(6):
        node = {"feature": f"feature {i} " + "x" * 60, "at_most": 1234567.125 * i, "then": {"action": i}, "else": node}
    shares = dict.fromkeys(names, 0.05)
    return status | {
        "actions": names,
        "standard": names[0],
        "policy": {"kind": "tree", "n_actions": 20, "root": node},
        "leaves": [
            {
                "where": " and ".join(f"feature {j} " + "x" * 60 for j in range(i)),
                "share": 1 / 7,
                "action": names[i],
                "shares": shares,
            }
            for i in range(7)
        ],
        "arms": [
            {
                "action": one,
                "assigned": 12_345_678,
                "share": 0.05,
                "mean": 0.000012345,
                "rewards_in": 12_000_000,
                "withdrawn": i == 3,
            }
            for i, one in enumerate(names)
        ],
    }


def all_of_them():
    made = [created(), collecting(), certified(), mixed(), paused(), alarmed(), withdrawn(), hostile(), many()]
    return {one["name"]: one for one in made}
