"""The dashboard as the service serves it: its keys open the pages, and nothing of the pages is in the API."""

from __future__ import annotations

import dataclasses

from tests.service.cases import ADMIN
from tests.service.dashboard.test_pages import check_sound


def page(service, path, **options):
    answer = service.client.request("GET", f"/dashboard{path}", **options)
    return answer.status_code, answer.text


def test_keys_of_the_service_open_pages(service):
    service.assign("somebody")
    assert page(service, "/experiments/checkout")[0] == 303
    for key in (service.keys["read"], service.keys["steer"], ADMIN):
        answer = service.client.request("POST", "/dashboard/sign-in", data={"key": key})
        assert answer.status_code == 303
        status, text = page(service, "/experiments/checkout")
        assert status == 200
        check_sound(text)
        assert "checkout</h1>" in text
        assert ">checkout</a>" in page(service, "")[1]
        assert service.client.request("POST", "/dashboard/sign-out").status_code == 303
    assert service.client.request("POST", "/dashboard/sign-in", data={"key": "pb_no_key"}).status_code == 403
    assert page(service, "")[0] == 303


def test_the_address_that_a_server_prints_leads_to_the_dashboard(service):
    answer = service.client.request("GET", "/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")


def test_a_session_opens_no_part_of_the_api(service):
    """Keys go with each request there: a browser's cookie must not do."""
    service.client.request("POST", "/dashboard/sign-in", data={"key": ADMIN})
    assert service.get("/experiments/checkout", key=None).status_code == 401
    assert not [path for path in service.client.app.openapi()["paths"] if "dashboard" in path]


def test_who_may_read_downloads_the_event_log(service, monkeypatch):
    service.create(name="other")
    service.client.request("POST", "/dashboard/sign-out")
    assert page(service, "/export/checkout")[0] == page(service, "/certificate/checkout")[0] == 303
    service.client.request("POST", "/dashboard/sign-in", data={"key": service.keys["read"]})
    service.assign("somebody")
    answer = service.client.request("GET", "/dashboard/export/checkout")
    assert (answer.status_code, answer.content[:4], answer.headers["cache-control"]) == (200, b"PAR1", "no-store")
    assert "record.parquet" in answer.headers["content-disposition"]
    for path in ("/export/other", "/certificate/other", "/export/none", "/export/checkout/x"):
        assert page(service, path)[0] == 404, path  # its key is for another experiment
    status, text = page(service, "/certificate/checkout")
    assert status == 404
    assert "Nothing is proven yet" in text
    shelf = service.client.app.state.service.shelf
    proven = dataclasses.replace(shelf.open("checkout").result(), certificate={"kind": "a proof"})
    monkeypatch.setattr(shelf.open("checkout"), "result", lambda: proven)
    assert page(service, "/certificate/checkout") == (200, '{"kind": "a proof"}')
    service.client.request("POST", "/dashboard/sign-out")
