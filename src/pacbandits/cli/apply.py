"""`pacbandits apply`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbandits.cli.console import AsJson, app, check_output, print_json, say, show, status
from pacbandits.cli.log_options import open_proof
from pacbandits.errors import InputError, count_of, one_line, plain, visible

if TYPE_CHECKING:
    from pacbandits.arrays import IntArray
    from pacbandits.exports.deployed_policy import DeployedPolicy
    from pacbandits.exports.rules import Action
    from pacbandits.logs.customers import Customers
    from pacbandits.proofs import Proof


STANDARD_OUTPUT = Path("-")
ACTION_COLUMN, PROPENSITY_COLUMN = "action", "propensity"
EXPORTS = ("--sql", "--python", "--rules", "--javascript", "--json-logic", "--flags")


@app.command("apply")
def apply_policy(
    certificate: Annotated[Path, typer.Argument(help="A certificate written by run or certify.")],
    customers: Annotated[
        Path | None,
        typer.Argument(
            help="Parquet or CSV with one row per customer and the columns that the policy uses. Other columns are "
            "kept unchanged."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write all columns and the action of each row to this file (.csv, .tsv or .parquet)."),
    ] = None,
    column: Annotated[
        str,
        typer.Option(
            help="Name of the action column. For a mixture policy, the probability of the drawn action is written "
            "beside it, in [cyan]propensity[/] or [cyan]NAME_propensity[/].",
            metavar="NAME",
        ),
    ] = ACTION_COLUMN,
    candidate: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Apply another candidate of a certificate with a gain over control: [cyan]rule[/], "
            "[cyan]one action[/] or [cyan]control[/]. If omitted, the recommended one.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed of a mixture policy; the same seed gives the same actions.")
    ] = 0,
    sql: Annotated[Path | None, typer.Option(help="Write the policy as an SQL expression ([cyan]-[/]: print).")] = None,
    draw: Annotated[
        str | None,
        typer.Option(
            help="For a mixture policy, a uniform draw from [0, 1) per row: a column or expression with --sql, a name "
            "in the data with --json-logic and --flags."
        ),
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            help="With --sql: the SQL dialect, [cyan]sqlite[/], [cyan]postgresql[/], [cyan]duckdb[/], "
            "[cyan]bigquery[/], [cyan]snowflake[/] or [cyan]mysql[/], with its quoting and date functions. If "
            "omitted, the SQL is standard: features derived from dates are expected as columns, and comments say how "
            "to compute them."
        ),
    ] = None,
    python: Annotated[
        Path | None, typer.Option(help="Write the policy as a Python function ([cyan]-[/]: print).")
    ] = None,
    rules: Annotated[Path | None, typer.Option(help="Write the policy as rules in JSON ([cyan]-[/]: print).")] = None,
    javascript: Annotated[
        Path | None, typer.Option(help="Write the policy as a JavaScript function ([cyan]-[/]: print).")
    ] = None,
    json_logic: Annotated[Path | None, typer.Option(help="Write the policy as JSON Logic ([cyan]-[/]: print).")] = None,
    flags: Annotated[
        Path | None,
        typer.Option(help="Write the policy as a feature flag with targeting conditions ([cyan]-[/]: print)."),
    ] = None,
    flag_system: Annotated[
        str, typer.Option(help="With --flags: [cyan]growthbook[/], or [cyan]flagd[/] (OpenFeature).", metavar="NAME")
    ] = "growthbook",
    flag: Annotated[str, typer.Option(help="With --flags: the name of the flag.", metavar="NAME")] = "policy",
    as_json: AsJson = False,
) -> None:
    """Apply a certified policy: choose the action of each row of a table, or export the policy for other systems.

    Without --out, print how many rows get each action. A mixture policy
    draws an action for every row and writes its probability beside it: log
    that as the propensity. The certificate is not rechecked here;
    [cyan]pacbandits verify[/] does that.

    [dim]Examples:
    pacbandits apply proof.json customers.csv
    pacbandits apply proof.json customers.csv --out actions.csv
    pacbandits apply proof.json customers.parquet --out actions.parquet --column email --seed 7
    pacbandits apply proof.json --sql policy.sql --python policy.py --rules policy.json
    pacbandits apply proof.json --sql - --draw draw_of_today
    pacbandits apply proof.json --javascript policy.js --flags flags.json --flag email
    pacbandits apply proof.json customers.csv --candidate "one action"[/]
    """
    from pacbandits.certificate.claim import rounded_up
    from pacbandits.report.document import ALARM

    asked = {"sql": sql, "python": python, "rules": rules, "javascript": javascript, "json-logic": json_logic}
    exports = {name: path for name, path in (asked | {"flags": flags}).items() if path is not None}
    _check_asked(customers, out=out, exports=exports, seed=seed)
    if not column or not column.isprintable():
        raise InputError(f"--column '{plain(column)}' must be a name that can be displayed; choose another")
    proof = open_proof(certificate, customers)
    policy, words = proof.policy, ""
    if candidate is not None:
        policy, words = _candidate(proof, candidate)
        say(f"note: {words}", err=True)
    written = {
        path: _export(name, policy, words, draw=draw, dialect=dialect, flag=flag, system=flag_system)
        for name, path in exports.items()
    }
    if not proof.certificate.certified:
        words = (
            f"proves {rounded_up(proof.certificate.certified_epsilon):.3g} and not the "
            f"{proof.certificate.epsilon:.3g} asked for"
        )
        say(f"note: the certificate {words}", err=True)
    for alarm in proof.certificate.alarms:
        say(f"{ALARM}the certificate is in doubt: {one_line(alarm)}", err=True)
    if customers is not None:
        beside = {} if candidate is None else {"candidate": candidate}
        _act(proof, policy, customers, out=out, column=column, seed=seed, as_json=as_json, beside=beside)
    for path, text in written.items():
        _write(path, text)


def _check_asked(customers: Path | None, *, out: Path | None, exports: dict[str, Path], seed: int) -> None:
    """Raise, before anything is read, if the options are inconsistent."""
    from pacbandits.logs.customers import check_ending

    if customers is None and out is not None:
        raise InputError(f"--out '{out}' needs a table of customers; give it after the certificate")
    if customers is None and not exports:
        raise InputError(
            f"nothing to do; give a table of customers, or a file for {', '.join(EXPORTS[:-1])} or {EXPORTS[-1]}"
        )
    if seed < 0:
        raise InputError(f"--seed must be 0 or more, got {seed}")
    places = [path for path in (out, *exports.values()) if path is not None]
    printed = places.count(STANDARD_OUTPUT) + (customers is not None)
    if printed > 1 and STANDARD_OUTPUT in places:
        raise InputError("only one output can be printed; name files for the others")
    if len({path.resolve() for path in places}) < len(places):
        raise InputError("two outputs have the same file name; name another file")
    for path in places:
        check_output(None if path == STANDARD_OUTPUT and path is not out else path)
    if out is not None:
        check_ending(out)
    if customers is not None and any(
        path.exists() and customers.exists() and path.samefile(customers) for path in places
    ):
        raise InputError(f"'{customers}' would be overwritten; name another output file")


def _candidate(proof: Proof, name: str) -> tuple[DeployedPolicy, str]:
    """Return a candidate of the certificate by its name, and how it compares with the recommended one, in words."""
    from pacbandits.certificate import Certificate
    from pacbandits.certificate.certificate import CONTROL, ONE_ACTION, RULE
    from pacbandits.certificate.claim import rounded_down
    from pacbandits.policies.trees.tree_policy import TreePolicy
    from pacbandits.records.policy import call

    made = proof.certificate
    gain = made.improvement if isinstance(made, Certificate) else None
    if gain is None:
        raise InputError(
            f"--candidate '{plain(name)}' needs a certificate of a gain over control, and {plain(proof.path)} has one "
            "policy; leave --candidate out, or certify with --control"
        )
    if name not in (RULE, ONE_ACTION, CONTROL):
        raise InputError(f"--candidate must be '{RULE}', '{ONE_ACTION}' or '{CONTROL}', got '{plain(name)}'")
    control, found = plain(call(gain.control, made.action_names)), {one.name: one for one in gain.candidates}
    if name != CONTROL and name not in found:
        raise InputError(f"the certificate has no candidate '{name}'; it has '{next(iter(found))}' and '{CONTROL}'")
    chosen = TreePolicy(gain.control, made.policy.n_actions) if name == CONTROL else found[name].policy
    words = f"candidate '{name}'"
    if name != CONTROL:
        words += f", proven gain over {control} at least {rounded_down(found[name].low):g}"
    if chosen.to_json() == made.policy.to_json():
        words += "; it is the policy that the certificate recommends"
    else:
        words += f"; the certificate recommends '{gain.chosen}', and its distance from the best is of that policy"
    return proof.deployed(chosen), words


def _export(
    name: str, policy: DeployedPolicy, words: str, *, draw: str | None, dialect: str | None, flag: str, system: str
) -> str:
    """Return the policy in another language; words: a comment above it, if there are any."""
    from pacbandits.exports import to_flags, to_javascript, to_json_logic, to_python, to_rules, to_sql
    from pacbandits.exports.rules import made_of_dates
    from pacbandits.schema import json_text

    chosen, actions, dates = policy.chosen, policy.action_names, policy.dates
    if name == "sql":
        text = to_sql(chosen, actions=actions, draw=draw, dates=dates, dialect=dialect)
        if "\\" in text:
            warning = "use a database that reads it as standard SQL does, which MySQL, BigQuery and Spark do not"
            say(f"note: the SQL holds a backslash; {warning}", err=True)
        return (f"-- {one_line(words)}\n" if words else "") + text + "\n"
    if name == "python":
        return (f"# {one_line(words)}\n" if words else "") + to_python(chosen, actions=actions, dates=dates)
    if name == "javascript":
        return (f"// {one_line(words)}\n" if words else "") + to_javascript(chosen, actions=actions, dates=dates)
    if name == "rules":
        return json_text(to_rules(chosen, actions=actions, dates=dates), indent=1) + "\n"
    for feature, part in made_of_dates(chosen, dates).items():
        say(f"note: the data must hold '{plain(feature)}', the {part.part} of '{plain(part.column)}'", err=True)
    if name == "json-logic":
        return json_text(to_json_logic(chosen, actions=actions, draw=draw), indent=1) + "\n"
    return json_text(to_flags(chosen, actions=actions, draw=draw, name=flag, system=system), indent=1) + "\n"


def _write(path: Path, text: str) -> None:
    if path == STANDARD_OUTPUT:
        if visible(text) != text:
            raise InputError("the policy contains names that cannot be displayed; write it to a file instead of '-'")
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"cannot write {path}: {plain(error.strerror)}") from None


def _act(
    proof: Proof,
    policy: DeployedPolicy,
    customers: Path,
    *,
    out: Path | None,
    column: str,
    seed: int,
    as_json: bool,
    beside: dict[str, str],
) -> None:
    """Read a table, choose the action of every row, and write or count the actions; beside: further JSON fields."""
    from pacbandits.exports.rules import written_actions
    from pacbandits.logs.customers import read_customers, write_customers
    from pacbandits.records import Mixture
    from pacbandits.report import applied_document

    drawn, names = isinstance(policy.chosen, Mixture), written_actions(policy.chosen, policy.action_names)
    drawn_with = PROPENSITY_COLUMN if column == ACTION_COLUMN else f"{column}_{PROPENSITY_COLUMN}"
    with status() as tell:
        tell(f"reading {customers}")
        table = read_customers(customers, policy.asked)
        if out is not None:
            _check_free(table, [column, drawn_with] if drawn else [column])
        actions, propensities = policy.decide(table.contexts, seed=seed, tell=tell)
        if out is not None:
            tell(f"writing {out}")
            added = {column: _named(names, actions)}
            write_customers(out, table, added if propensities is None else added | {drawn_with: propensities})
    counted = _counts(names, actions)
    if as_json:
        alarms = {"alarms": list(proof.certificate.alarms)} if proof.certificate.alarms else {}
        each = [{"action": name, "rows": count} for name, count in counted]
        print_json({"rows": len(table), "actions": each, "out": None if out is None else str(out)} | beside | alarms)
    elif out is None:
        show(applied_document(counted))
    else:
        said = ", ".join(f"{plain(name)} for {count:,}" for name, count in counted if count)
        say(one_line(f"wrote {out}: {count_of(len(table), 'row')}, {said}"))


def _check_free(table: Customers, names: list[str]) -> None:
    for name in names:
        if name in table.names:
            raise InputError(f"column '{plain(name)}' already exists; choose another name with --column")


def _named(names: tuple[Action, ...], actions: IntArray) -> object:
    """Return actions (n,) as they are written."""
    from pacbandits.records.columns import pa

    return pa.array(names).take(pa.array(actions))


def _counts(names: tuple[Action, ...], actions: IntArray) -> list[tuple[Action, int]]:
    """Return the number of rows of each action, in the order of the actions."""
    import numpy as np

    counts: list[int] = np.bincount(actions, minlength=len(names)).tolist()
    return list(zip(names, counts, strict=True))
