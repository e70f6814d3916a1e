"""The dashboard as the service serves it: its keys open the pages, and nothing of the pages is in the API."""

from __future__ import annotations

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


def test_a_session_opens_no_part_of_the_api(service):
    """Keys go with each request there: a browser's cookie must not do."""
    service.client.request("POST", "/dashboard/sign-in", data={"key": ADMIN})
    assert service.get("/experiments/checkout", key=None).status_code == 401
    assert not [path for path in service.client.app.openapi()["paths"] if "dashboard" in path]
