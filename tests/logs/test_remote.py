"""Logs from databases and object stores: certificates as from a file, errors in one line, and no secret told."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from types import MappingProxyType
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from pacbandits.errors import InputError, masked
from pacbandits.logs import readers
from pacbandits.logs.readers import Remote, as_remote, local_copies
from tests.service.postgres import postgres

COLUMNS = ("--action", "variant", "--reward", "bought", "--split", "uniform", "--policies", "trees:depth=1")
PYTHON = {"action": "variant", "reward": "bought", "split": "uniform", "policies": "trees:depth=1"}
SECRET = "hunter2-x"


def made_table(n=400):
    rng = np.random.default_rng(0)
    age, arm = rng.integers(18, 80, n), rng.choice(["plain", "discount"], n)
    bought = (rng.random(n) < 0.2 + 0.5 * ((arm == "discount") & (age < 40))).astype(np.int64)
    return pa.table({"age": age, "country": rng.choice(["de", "fr", "us"], n), "variant": arm, "bought": bought})


TABLE = made_table()


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A DuckDB file `shop.db` with the table `test`, in the current folder."""
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.db") as database:
        given = TABLE
        database.register("given", given)
        database.execute("create table test as select * from given")
    return tmp_path


def digest(path):
    return json.loads(path.read_text(encoding="utf-8"))["digest"]


@pytest.mark.thorough
def test_a_table_of_duckdb_is_certified_and_verified_as_a_file(shop, command):
    url, pages = "duckdb:///shop.db?table=test", shop / "report.html"
    proof = shop / "proof.json"
    code, out, err = command("certify", url, *COLUMNS, "--certificate", proof, "--report", pages)
    assert (code, err) == (0, ""), err
    assert f"pacbandits verify proof.json &#39;{url}&#39;" in pages.read_text(encoding="utf-8")
    assert json.loads(proof.read_text(encoding="utf-8"))["reading"] == {
        "action": "variant",
        "reward": "bought",
        "split": "uniform",
        "source": url,
        "order": "none",
    }
    # Rows in another order, as of another day, are the same table.
    import duckdb

    with duckdb.connect("shop.db") as database:
        database.execute("create table again as select * from test order by random()")
        database.execute("drop table test")
        database.execute("alter table again rename to test")
    code, out, _ = command("verify", proof, f"duckdb:///{shop}/shop.db?table=main.test")
    assert code == 0
    assert f"read from {url}, read with --action variant" in " ".join(out.split())
    assert command("certify", "--write-plan", "plan.json", *COLUMNS)[0] == 0
    assert command("certify", url, "--plan", "plan.json", "--certificate", "planned.json")[0] == 0
    assert command("verify", "planned.json", url, "--plan", "plan.json")[0] == 0
    code, out, _ = command("evaluate", proof, url, "--json")
    assert (code, json.loads(out)["own_log"]) == (0, True)


@pytest.mark.thorough
def test_rows_that_are_streamed_have_the_same_digest_whatever_their_order(shop, command):
    streamed = ("--connection", "duckdb:///shop.db", "--engine", "stream", "--certificate")
    for number, order in enumerate(("rowid", "-rowid")):
        query = f"select * from (select * from test order by {order}) -- as they come"
        assert command("certify", "--sql", query, *COLUMNS, *streamed, f"{number}.json")[0] == 0
    assert digest(shop / "0.json") == digest(shop / "1.json")
    code, _, err = command("verify", "0.json", "--sql", "select * from test;", *streamed[:-1])
    assert (code, err) == (0, "")


@pytest.mark.thorough
def test_a_query_with_its_own_order_keeps_it(shop, command):
    with local_copies([Remote("duckdb:///shop.db", "select * from test order by age desc")]) as files:
        ages = pq.read_table(files.paths[0])["age"].to_pylist()
        assert files.reading({}, ordered=True) == {"source": files.name}
    assert ages == sorted(ages, reverse=True)
    assert not files.paths[0].exists()
    code, _, err = command(
        "certify", "--sql", "select * from test", "--connection", "duckdb:///shop.db", *COLUMNS, "--ordered"
    )
    assert code == 2
    assert "has no order of rows" in err
    assert "ORDER BY" in err


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("select * from test order by age", True),
        ("select * from test ORDER\n BY age -- (", True),
        ("select *, row_number() over (order by age) from test", False),
        ("select * from (select * from test order by age) limit 3", False),
        ("select 'order by', \"order by\" from test -- order by", False),
        ("select * from test /* order by */", False),
    ],
)
def test_only_an_order_by_of_the_query_itself_counts(query, ordered):
    assert readers._is_ordered(query) == ordered


@pytest.mark.thorough
def test_decimals_and_identifiers_of_a_database_are_read(shop):
    import duckdb

    with duckdb.connect("shop.db") as database:
        query = "select *, bought * 2.50 as paid, uuid() as id, {'a': age} as told, [age, 1] as pair from test"
        database.execute(f"create table odd as {query}")
        frame = database.sql("select *, bought * 2.50 as paid from test")
        mine = pb.certify(frame, **PYTHON | {"reward": "paid", "reward_range": (0, 2.5), "without": ["bought"]})
    with local_copies(["duckdb:///shop.db?table=odd"]) as files:
        kinds = {field.name: str(field.type) for field in pq.read_schema(files.paths[0])}
    assert kinds["paid"] == "double"
    assert kinds["id"] == kinds["told"] == "string"
    assert kinds["pair"].startswith("list")
    rest = {"reward": "paid", "reward_range": (0, 2.5), "without": ["bought", "told", "id", "pair"]}
    theirs = pb.certify("duckdb:///shop.db?table=test", **PYTHON)
    assert mine.epsilon == pytest.approx(2.5 * theirs.epsilon)
    log, _ = pb.read_log(
        "duckdb:///shop.db?table=odd", **rest | {"action": "variant", "split": "uniform", "without": ["bought", "pair"]}
    )
    assert len(log) == TABLE.num_rows


@pytest.mark.thorough
def test_python_takes_urls_wherever_it_takes_files(shop):
    url = "duckdb:///shop.db?table=test"
    said, named = [], {name: value for name, value in PYTHON.items() if name != "policies"}
    result = pb.certify(url, **PYTHON, progress=said.append)
    assert result.source == url
    assert any(url in words for words in said)
    pq.write_table(TABLE, "test.parquet")
    same = pb.certify("test.parquet", order="none", **PYTHON)
    assert (result.epsilon, result.certificate.policy) == (same.epsilon, same.certificate.policy)
    result.save("proof.json")
    proof = pb.load_certificate("proof.json")
    assert pb.verify(proof, proof.log(url)).good
    assert pb.evaluate(url, result, **named).value.estimate == result.worth.value.estimate
    with pytest.raises(InputError, match="has no order of rows"):
        pb.certify(url, **PYTHON, ordered=True)
    files = proof.files([url])
    assert len(files) == TABLE.num_rows
    files.close()
    assert not files.parts.files[0].path.exists()


@pytest.mark.thorough
def test_data_sets_of_arrow_are_read_in_memory_or_as_a_stream(tmp_path, monkeypatch):
    for number in range(2):
        pq.write_table(TABLE.slice(200 * number, 200), tmp_path / f"{number}.parquet")
    dataset = pyarrow.dataset.dataset(tmp_path)
    assert pb.certify(dataset, **PYTHON).epsilon == pb.certify(TABLE, **PYTHON).epsilon
    assert len(pb.certify(TABLE.to_reader(), **PYTHON).log) == 400
    for module in ("analysis", "logs.table_files"):
        monkeypatch.setattr(f"pacbandits.{module}.MIN_STREAMED_ROWS", 300)
    streamed = pb.certify(dataset, **PYTHON)
    assert streamed.streamed is not None
    assert streamed.source == "the data frame"


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
@pytest.mark.thorough
def test_frames_of_other_libraries_need_no_file(library):
    module = pytest.importorskip(library)
    made = {
        "pandas": lambda: TABLE.to_pandas(),
        "polars": lambda: module.from_arrow(TABLE),
        "duckdb": lambda: module.from_arrow(TABLE),
    }[library]()
    assert pb.certify(made, **PYTHON).epsilon == pb.certify(TABLE, **PYTHON).epsilon


class Lazy:
    def collect(self):
        return TABLE


def test_a_lazy_frame_is_told_to_be_collected():
    with pytest.raises(InputError, match=r"a Lazy is neither .*; collect\(\) it first"):
        pb.certify(Lazy(), **PYTHON)


# Errors in one line.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["duckdb:///shop.db?table=tset"], "there is no table 'tset'; did you mean 'test'? (known: test)"),
        (["duckdb:///shop.db"], "names no table; write duckdb://…?table=NAME"),
        (["duckdb:///none.db?table=test"], "no file at none.db; write duckdb:///shop.db for a file here"),
        (["duckdb:///text.db?table=test"], "not a valid DuckDB database file!; name a file that DuckDB wrote"),
        (["mysql://ann:hunter2-x@h/shop?table=test"], "mysql:// cannot be read (known: abfs"),
        (["--sql", "select 1"], "--sql needs the database; add --connection"),
        (["--sql", " ", "--connection", "duckdb:///shop.db"], "--sql is empty"),
        (["--sql", "select 1", "--connection", "shop.db"], "is not the URL of a database; write duckdb:///shop.db"),
        (["--sql", "select 1", "--connection", "s3://bucket"], "s3:// cannot be read (known: duckdb, postgres"),
        (["t.csv", "--sql", "select 1", "--connection", "duckdb://"], "--sql and t.csv both name rows"),
        (["--sql", "selec 1", "--connection", "duckdb:///shop.db"], "correct the query (--sql)"),
        (["--sql", "drop table test", "--connection", "duckdb:///shop.db"], "correct the query (--sql)"),
        (["--sql", "select nope from test", "--connection", "duckdb:///shop.db"], 'column "nope" not found'),
        (["--sql", "select age, age from test", "--connection", "duckdb:///shop.db"], ""),
        (["--sql", "select * from test where false", "--connection", "duckdb:///shop.db"], "has no rows"),
        (["--sql", "select * exclude (variant) from test", "--connection", "duckdb:///shop.db"], "no column 'variant'"),
        (["postgresql://ann:hunter2-x@127.0.0.1:1/shop?table=test"], "refused; the server does not answer; check host"),
        (["postgresql://ann@127.0.0.1:1/shop?table=test&password=hunter2-x"], "the server does not answer"),
        (["postgresql://ann:hunter2-x%@127.0.0.1:1/shop?table=test"], 'percent-encoded token: "***"'),
    ],
)
@pytest.mark.first(4)
def test_errors_are_one_line_with_a_remedy_and_without_secrets(shop, command, arguments, words):
    if any("postgresql" in one for one in arguments):
        pytest.importorskip("adbc_driver_postgresql")
    (shop / "text.db").write_text("no database" * 500, encoding="utf-8")
    (shop / "t.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    code, out, err = command("certify", *arguments, *COLUMNS)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert words in err
    assert SECRET not in err
    assert "/pacbandits-" not in err  # the temporary folder


def test_a_missing_driver_is_named_with_its_extra(tmp_path, monkeypatch, command):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name}", name=name)

    monkeypatch.setattr(readers, "import_module", absent)
    assert command("certify", "duckdb:///shop.db?table=test", *COLUMNS)[2] == (
        "pacbandits: reading this database needs duckdb; pip install 'pacbandits[sql]'\n"
    )
    assert command("certify", "postgresql://h/shop?table=test", *COLUMNS)[2] == (
        "pacbandits: reading this database needs adbc-driver-postgresql; pip install 'pacbandits[sql]'\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no file at postgresql:/ann:a@b/c@h/shop", "no file at postgresql:/ann:***@h/shop"),
        ("postgres://ann:p w@h", "postgres://ann:p w@h"),  # no URL has a space
        ("s3://key:se/cret@bucket/x", "s3://key:***@bucket/x"),
        ("password=abc&sslmode=require", "password=***&sslmode=require"),
        ("create secret (secret => 'a b', region 'x')", "create secret (secret => ***, region 'x')"),
        ("the time 10:30 of ann@example.org", "the time 10:30 of ann@example.org"),
    ],
)
def test_passwords_are_masked_in_every_message(text, shown):
    assert masked(text) == shown
    assert InputError(text).args[0] == shown


def test_names_have_no_secrets():
    for scheme in ("postgresql", "postgresql+psycopg"):
        remote = Remote(f"{scheme}://ann:{SECRET}@h:5/shop?table=a&sslmode=require&password={SECRET}")
        assert remote.name == "postgresql://ann:***@h:5/shop?table=a&sslmode=require"
        assert SECRET in remote.secrets
    query = Remote(f"postgresql://ann:{SECRET}@h/shop", f"select * from f(password => '{SECRET}')")
    assert query.name == "--sql 'select * from f(password => ***)' --connection postgresql://ann:***@h/shop"
    assert Remote(f"s3://KEY:{SECRET}@bucket/a b/*.csv?region=eu").name == "s3://***@bucket/a b/*.csv?region=eu"
    pattern = Remote("s3://bucket/part-?.csv?region=eu")
    assert (pattern.path, pattern.settings) == ("/part-?.csv", {"region": "eu"})


def test_a_file_that_is_called_like_a_url_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "b").mkdir(parents=True)
    (tmp_path / "s3:" / "b" / "x.csv").write_text("a\n1\n", encoding="utf-8")
    assert as_remote("s3://b/x.csv") is None
    assert as_remote("logs/x.csv") is None


# Object stores.


class Store(BaseHTTPRequestHandler):
    """The part of S3 that reading needs: HEAD, GET with ranges, ListObjectsV2; `refusal`: a code for all requests."""

    files: Mapping[str, bytes] = MappingProxyType({})
    refusal: str | None = None

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(headers.get("size", len(body))))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        if self.refusal is not None:
            status = 400 if self.refusal == "ExpiredToken" else 403
            return self.answer(status, f"<Error><Code>{self.refusal}</Code><Message>no</Message></Error>".encode())
        if not key and self.command == "GET":
            return self.answer(200, self.listing(bucket, {k: v[0] for k, v in parse_qs(parts.query).items()}))
        body = self.files.get(f"{bucket}/{key}", b"" if not key and bucket == "shop" else None)
        if body is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        found = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found is None or self.command == "HEAD":
            return self.answer(200, body, Last_Modified="Wed, 18 Nov 2026 07:00:00 GMT", ETag='"1"')
        part = body[int(found[1]) : int(found[2]) + 1 if found[2] else None]
        return self.answer(206, part, ETag='"1"')

    def listing(self, bucket, asked):
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter")
        keys = [name.removeprefix(f"{bucket}/") for name in self.files if name.startswith(f"{bucket}/{prefix}")]
        rows, folders = "", set()
        for key in sorted(keys):
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                size = len(self.files[f"{bucket}/{key}"])
                when = "2026-11-18T07:00:00.000Z"
                rows += f"<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>{when}</LastModified></Contents>"
        rows += "".join(f"<CommonPrefixes><Prefix>{one}</Prefix></CommonPrefixes>" for one in sorted(folders))
        return f"<ListBucketResult><Name>{bucket}</Name><KeyCount>1</KeyCount>{rows}</ListBucketResult>".encode()


@contextmanager
def store(monkeypatch, files, *, refusal=None):
    """Serve files as S3 does; yield the settings of a URL that reads there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    handler = type("Served", (Store,), {"files": files, "refusal": refusal})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_files_of_an_object_store_are_found_as_local_ones(monkeypatch):
    parts = {f"shop/logs/part-{5 * j}.parquet": bytes([j]) for j in range(3)}
    others = {"shop/a b.csv": b"a\n1\n", "shop/logs/_SUCCESS": b"", "shop/logs/deep/x.parquet": b"?"}
    with store(monkeypatch, parts | others) as where:
        with local_copies([f"s3://shop/logs?{where}"]) as files:
            assert [path.name for path in files.paths] == ["part-0.parquet", "part-5.parquet", "part-10.parquet"]
            assert [path.read_bytes() for path in files.paths] == list(parts.values())
            assert files.name == f"s3://shop/logs?{where}"
            assert files.shown(files.paths[2]) == "s3://shop/logs/part-10.parquet"
        with local_copies([f"s3://shop/**/part-?.parquet?{where}", "local.csv"]) as files:
            assert [path.name for path in files.paths] == ["part-0.parquet", "part-5.parquet", "local.csv"]
        with local_copies([f"s3://shop/a%20b.csv?{where}"]) as files:
            assert files.paths[0].name == "a b.csv"
        for missing in ("nope.csv", "*.tsv", "logs/deeper/"):
            with pytest.raises(InputError, match="no file"), local_copies([f"s3://shop/{missing}?{where}"]):
                pass


@pytest.mark.thorough
def test_a_file_of_an_object_store_is_certified_and_verified(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    made = BytesIO()
    pyarrow.csv.write_csv(TABLE, made)
    with store(monkeypatch, {"shop/a b.csv": made.getvalue()}) as where:
        url = f"s3://KEY:{SECRET}@shop/a b.csv?{where}"
        code, _, err = command("certify", url, *COLUMNS, "--certificate", "proof.json")
        assert (code, err) == (0, ""), err
        whole = (tmp_path / "proof.json").read_text(encoding="utf-8")
        assert SECRET not in whole
        assert json.loads(whole)["reading"]["source"].startswith("s3://***@shop/a b.csv?")
        assert command("verify", "proof.json", url)[0] == 0
        (tmp_path / "same.csv").write_bytes(made.getvalue())
        assert command("verify", "proof.json", "same.csv")[0] == 0
        code, _, err = command("certify", f"s3://shop/a b.csv?{where}", "--action", "varian")
        assert err.startswith(f"pacbandits: s3://shop/a b.csv?{where}: there is no column")


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ("ExpiredToken", "the token has expired: sign in again"),
        ("InvalidAccessKeyId", "the access key or its secret is wrong"),
        ("AccessDenied", "access is denied; set credentials"),
    ],
)
@pytest.mark.first(1)
def test_a_store_that_refuses_says_why(monkeypatch, command, refusal, words):
    with store(monkeypatch, {}, refusal=refusal) as where:
        code, _, err = command("certify", f"s3://shop/x.csv?{where}", *COLUMNS)
    assert (code, err.count("\n")) == (2, 1)
    assert words in err
    assert SECRET not in err


# PostgreSQL.


@pytest.mark.thorough
def test_a_table_of_postgresql_is_certified_and_verified(tmp_path, monkeypatch, command):
    driver = pytest.importorskip("adbc_driver_postgresql.dbapi")
    monkeypatch.chdir(tmp_path)
    with postgres() as url:
        with driver.connect(url, autocommit=True) as database, database.cursor() as cursor:
            cursor.adbc_ingest("test", TABLE)
            cursor.execute(
                "alter table test add id uuid default gen_random_uuid(), add told json, add paid numeric(8, 2)"
            )
            cursor.execute("update test set paid = bought * 2.5")
            cursor.execute(f"create role ann login password '{SECRET}'")
        table, own = f"{url}?table=test", ("--without", "told,paid")
        code, _, err = command("certify", table, *COLUMNS, *own, "--certificate", "proof.json")
        assert (code, err) == (0, ""), err
        with driver.connect(url, autocommit=True) as database, database.cursor() as cursor:
            cursor.execute("update test set age = age where age < 40")  # they now stand at the end
        assert command("verify", "proof.json", table)[0] == 0
        paid = ("--sql", "select age, variant, paid from test order by id", "--connection", url)
        asked = ("--action", "variant", "--reward", "paid", "--reward-range", "0", "2.5", "--split", "uniform")
        assert command("certify", *paid, *asked, "--engine", "stream", "--certificate", "paid.json")[0] == 0
        assert command("verify", "paid.json", *paid, "--engine", "stream")[0] == 0
        with driver.connect(url, autocommit=True) as database, database.cursor() as cursor:
            cursor.execute("select age, variant, bought from test")
            assert pb.certify(cursor.fetch_record_batch(), **PYTHON).certified
        denied = url.replace("postgres@", f"ann:{SECRET}@")
        for arguments, words in (
            ([f"{url}?table=tests"], "there is no table 'tests'; did you mean 'test'?"),
            ([f"{denied}?table=test"], "permission denied for table test; the user may not read it"),
            ([f"{url}none?table=test"], 'database "postgresnone" does not exist; name another database'),
            (
                ["--sql", "select nope from test", "--connection", url],
                '"nope" does not exist; correct the query',
            ),
            (["--sql", "delete from test", "--connection", url], "correct the query"),
            (["--sql", "select nextval('x') order by 1", "--connection", url], "correct the query"),
        ):
            code, _, err = command("certify", *arguments, *COLUMNS)
            assert (code, err.count("\n")) == (2, 1), err
            assert words in err
            assert SECRET not in err
